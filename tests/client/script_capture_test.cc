#include "client/script_capture.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/script_fixture.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Tests are skipped where no sandbox can be made, except that HAPMOE_REQUIRE_SANDBOX=1 makes that a
// failure.
class ScriptCaptureTest : public ::testing::Test, public ScriptFixture {
 protected:
  void SetUp() override {
    const absl::StatusOr<ScriptRun> run = RunInSandbox("torchrun t.py\n");
    if (absl::IsUnavailable(run.status()) && std::getenv("HAPMOE_REQUIRE_SANDBOX") == nullptr) {
      GTEST_SKIP() << run.status();
    }
    ASSERT_TRUE(run.ok()) << run.status();
  }

  ScriptRun Run(const std::string& script) const {
    absl::StatusOr<ScriptRun> run = RunInSandbox(script);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : ScriptRun();
  }

  // The arguments of the only launch.
  std::vector<std::string> Arguments(const std::string& script) const {
    const ScriptRun run = Run(script);
    EXPECT_THAT(run.launches, SizeIs(1)) << absl::StrJoin(run.notes, "\n");
    return run.launches.empty() ? std::vector<std::string>() : run.launches[0].arguments;
  }
};

TEST_F(ScriptCaptureTest, ArgumentsArriveUnchanged) {
  EXPECT_THAT(Arguments("torchrun --nnodes 2 t.py '' 'a  b' $'x\\ny' '\\n' 'ü' '*' \"$(seq 3)\""),
              ElementsAre("", "a  b", "x\ny", "\\n", "ü", "*", "1\n2\n3"));
}

TEST_F(ScriptCaptureTest, LongArgumentsArriveWhole) {
  EXPECT_THAT(Arguments("x=$(printf '%05000d' 7)\ntorchrun t.py \"$x\" --end"),
              ElementsAre(std::string(4999, '0') + "7", "--end"));
}

TEST_F(ScriptCaptureTest, TheEnvironmentIsWhatTheScriptExports) {
  setenv("SLURM_NNODES", "64", 1);
  request_.environment = {"GIVEN=yes", "NCCL_GIVEN=yes"};
  const ScriptRun run = Run(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1 WANDB_API_KEY=k\nNCCL_LOCAL=2\nexport -f 2>/dev/null\n"
      "HF_TOKEN=secret NCCL_ONE=x torchrun t.py ${SLURM_NNODES:-unset} $GIVEN");
  unsetenv("SLURM_NNODES");
  ASSERT_THAT(run.launches, SizeIs(1));
  EXPECT_THAT(run.launches[0].arguments, ElementsAre("unset", "yes"));
  EXPECT_THAT(run.launches[0].environment,
              UnorderedElementsAre(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"), Pair("NCCL_ONE", "x"),
                                   Pair("NCCL_GIVEN", "yes")));
}

TEST_F(ScriptCaptureTest, EveryDifferentLaunchIsKept) {
  const ScriptRun run =
      Run("for tp in 1 2; do for rank in 0 1; do\n"
          "torchrun --node_rank $rank t.py --tp $tp\ndone; done");
  ASSERT_THAT(run.launches, SizeIs(2));
  EXPECT_THAT(run.launches[0].arguments, ElementsAre("--tp", "1"));
  EXPECT_THAT(run.launches[1].arguments, ElementsAre("--tp", "2"));
}

TEST_F(ScriptCaptureTest, ConcurrentLaunchesDoNotMix) {
  const ScriptRun run =
      Run("x=$(printf '%03000d' 1)\nfor i in 1 2 3 4 5 6; do torchrun t.py $i \"$x\" & done; wait");
  EXPECT_THAT(run.launches, SizeIs(6));
  for (const Launch& launch : run.launches) {
    ASSERT_THAT(launch.arguments, SizeIs(2));
    EXPECT_EQ(launch.arguments[1], std::string(2999, '0') + "1");
  }
}

TEST_F(ScriptCaptureTest, AScriptThatLaunchesNothingSaysWhatItSaid) {
  const ScriptRun run = Run("no_such_tool --x\necho 'WORKSPACE is not set' >&2\nexit 3");
  EXPECT_THAT(run.launches, IsEmpty());
  EXPECT_THAT(run.notes, Contains(HasSubstr("no_such_tool")));
  EXPECT_THAT(run.notes, Contains("ended with status 3"));
  EXPECT_THAT(run.notes, Contains("it said: WORKSPACE is not set"));
}

TEST_F(ScriptCaptureTest, UnreadableScriptsAreRefused) {
  ScriptRequest request;
  request.script = "none.sh";
  EXPECT_EQ(ScriptCapture().Run(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.script = ".";
  EXPECT_EQ(ScriptCapture().Run(request).status().code(), absl::StatusCode::kInvalidArgument);
}

// What a hostile script tries, and what must be as before.

TEST_F(ScriptCaptureTest, NothingOutsideCanBeWritten) {
  const fs::path victim = root_.Write("outside/victim", "precious");
  Write("data.txt", "precious");
  Run(absl::StrCat(
      "echo x > ", victim.string(), "; rm -rf ", root_.path().string(),
      "/outside; rm -rf ../outside; echo x > data.txt; rm -f data.txt; echo x > $0\n"
      "echo x > new.txt; for p in /etc/hapmoe_test /usr/bin/torchrun /usr/lib/hapmoe_test "
      "/hapmoe_test /dev/shm/hapmoe_test /proc/sys/kernel/hostname; do echo x > $p; done\n"
      "torchrun t.py"));
  EXPECT_TRUE(fs::exists(victim));
  EXPECT_EQ(fs::file_size(victim), 8u);
  EXPECT_EQ(fs::file_size(root_ / "job" / "data.txt"), 8u);
  EXPECT_GT(fs::file_size(root_ / "job" / "job.sh"), 100u);
  EXPECT_FALSE(fs::exists(root_ / "job" / "new.txt"));
  for (const char* path :
       {"/etc/hapmoe_test", "/usr/lib/hapmoe_test", "/hapmoe_test", "/dev/shm/hapmoe_test"}) {
    EXPECT_FALSE(fs::exists(path)) << path;
  }
}

TEST_F(ScriptCaptureTest, WhatIsNotTheJobsCannotBeRead) {
  const fs::path secret = root_.Write("outside/secret", "secret");
  Write(".token", "secret");
  fs::create_symlink(secret, root_ / "job" / "link");
  EXPECT_THAT(Arguments(absl::StrCat("shopt -s nullglob\ntorchrun t.py \"$(cat ", secret.string(),
                                     " link .token /etc/passwd 2>/dev/null)\" $PWD/.t* /home/*")),
              ElementsAre(""));
}

// What bash says of missing paths changes the sandbox of a second run; a script may say it, too.
TEST_F(ScriptCaptureTest, ForgedMessagesReachNothing) {
  const fs::path secret = root_.Write("outside/secret", "secret");
  Write("data.txt", "precious");
  const std::string outside = (root_ / "outside").string();
  const ScriptRun run = Run(absl::StrCat(
      "for p in / /usr /lib64 /proc /dev /run/hapmoe /etc ", outside, " ", outside,
      "/secret data.txt job.sh . .. ../../../.. '' $HOME /opt/bin/torchrun /usr/bin/torchrun; do\n"
      "  echo \"x: line 1: cd: $p: No such file or directory\"\n"
      "  echo \"x: line 1: $p: Read-only file system\"\ndone\n"
      "echo x > ",
      outside, "/new; echo x > data.txt\n[ -e ", outside, "/secret ] && torchrun t.py\n",
      "torchrun u.py \"$(cat ", outside, "/secret 2> /dev/null)\""));
  EXPECT_FALSE(fs::exists(root_ / "outside" / "new"));
  EXPECT_EQ(fs::file_size(root_ / "job" / "data.txt"), 8u);
  ASSERT_THAT(run.launches, SizeIs(1)) << absl::StrJoin(run.notes, "\n");
  EXPECT_THAT(run.launches[0].arguments, ElementsAre(""));
}

TEST_F(ScriptCaptureTest, ThereIsNoNetworkAndNoOtherProcess) {
  EXPECT_THAT(Arguments("reached=no; (exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && reached=yes\n"
                        "devices=$(grep -c : /proc/net/dev)\n"
                        "processes=(/proc/[0-9]*)\n"
                        "torchrun t.py $reached $devices $((${#processes[@]} < 8)); kill -9 -1"),
              ElementsAre("no", "1", "1"));
}

TEST_F(ScriptCaptureTest, EndlessScriptsAreEnded) {
  limits_.time = absl::Seconds(3);  // Enough to come to the loop on a busy machine.
  const absl::Time start = absl::Now();
  const ScriptRun run = Run("torchrun t.py\nwhile :; do :; done");
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  EXPECT_THAT(run.launches, SizeIs(1));
  EXPECT_THAT(run.notes, Contains("stopped after 3s"));
}

// Every process here ends by itself and their number is bounded, whether or not limits hold: where
// they do not, a test that forks without end takes the whole machine with it.

TEST_F(ScriptCaptureTest, TooManyProcessesAreEnded) {
  limits_.processes = 20;
  const ScriptRun run = Run("for i in {1..30}; do /run/hapmoe/real/sleep 2 & done; wait");
  EXPECT_THAT(run.notes, Contains("stopped: more than 20 processes"));
}

TEST_F(ScriptCaptureTest, TheKernelLimitsProcesses) {
  EXPECT_THAT(Arguments("torchrun t.py $(ulimit -u) $(ulimit -Hu)"), ElementsAre("256", "256"));
  // The limit is one that holds for the script's user. A shell that cannot fork may give up, so a
  // shell of its own counts.
  const std::vector<std::string> most = Arguments(
      "(\n  ulimit -u 20\n  most=0\n"
      "  for i in {1..40}; do\n"
      "    /run/hapmoe/real/sleep 1 &\n    all=(/proc/[0-9]*)\n"
      "    ((${#all[@]} > most)) && most=${#all[@]}\n"
      "    echo $most > /tmp/most\n"
      "  done\n) 2>/dev/null\ntorchrun t.py $(< /tmp/most)");
  ASSERT_THAT(most, SizeIs(1));
  EXPECT_GE(std::stoi(most[0]), 10);
  EXPECT_LE(std::stoi(most[0]), 21);  // 20, and the init of the namespace.
}

TEST_F(ScriptCaptureTest, TheLimitOnProcessesCannotBeRaised) {
  EXPECT_THAT(Arguments("ulimit -u unlimited 2>/dev/null; torchrun t.py $(ulimit -u)"),
              ElementsAre("256"));
}

TEST_F(ScriptCaptureTest, TheScriptIsNotRoot) {
  EXPECT_THAT(Arguments("torchrun t.py $(grep CapEff /proc/self/status)"),
              ElementsAre("CapEff:", "0000000000000000"));
}

TEST_F(ScriptCaptureTest, MemoryOfOneProcessIsLimited) {
  limits_.memory_bytes = int64_t{128} << 20;
  const ScriptRun run = Run("x=aaaaaaaaaaaaaaaa; for i in {1..24}; do x=$x$x; done; torchrun t.py");
  EXPECT_THAT(run.launches, IsEmpty());
  EXPECT_THAT(run.notes, Contains(HasSubstr("cannot allocate")));
}

TEST_F(ScriptCaptureTest, MemoryOfAllProcessesIsLimited) {
  limits_.memory_bytes = int64_t{128} << 20;
  const ScriptRun run =
      Run("for i in {1..5}; do\n"
          "  (x=$(head -c 30000000 /dev/zero | tr '\\0' a); /run/hapmoe/real/sleep 3) &\n"
          "done; wait");
  EXPECT_THAT(run.notes, Contains("stopped: more than 128 MiB of memory"));
}

TEST_F(ScriptCaptureTest, FilesAreLimited) {
  EXPECT_THAT(Arguments("head -c 100000000 /dev/zero > /tmp/big 2>/dev/null\n"
                        "torchrun t.py $(($(stat -c %s /tmp/big) <= 16777216))"),
              ElementsAre("1"));
}

TEST_F(ScriptCaptureTest, FloodsOfOutputAndForgedRecordsAreSurvived) {
  limits_.time = absl::Seconds(2);
  Run("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
  const ScriptRun run = Run("while :; do head -c 65536 /dev/urandom >&198; done");
  EXPECT_THAT(run.launches, IsEmpty());
}

TEST(LaunchRecorderTest, LinesMayComeInPiecesAndOutOfTurn) {
  LaunchRecorder recorder;
  const std::string text =
      "1 p torchrun\n2 p python\n1 a t.py\n2 a u.py\n1 a x\\\n1 + \\y\\nz\n1 e PATH=/bin\n"
      "1 e NCCL_A=b=c\n1 e OTHER=1\n2 !\n1 e PWD=/\n1 e BASH_FUNC_f%%=() { :; }\n1 !\n3 ? "
      "nothing\n";
  for (const char c : text) EXPECT_TRUE(recorder.Feed(absl::string_view(&c, 1)));
  const std::vector<Launch> launches = recorder.TakeLaunches();
  ASSERT_THAT(launches, SizeIs(2));
  EXPECT_EQ(launches[0].entry, "u.py");
  EXPECT_EQ(launches[1].entry, "t.py");
  EXPECT_THAT(launches[1].arguments, ElementsAre("x\\y\nz"));
  EXPECT_THAT(launches[1].environment, ElementsAre(Pair("NCCL_A", "b=c")));
  EXPECT_THAT(recorder.missing_programs(), ElementsAre("nothing"));
}

TEST(LaunchRecorderTest, NonsenseIsPassedOver) {
  LaunchRecorder recorder;
  EXPECT_TRUE(recorder.Feed("\n \n1\n1 pp x\n1 + y\n1 a\nx y z\n"));
  EXPECT_FALSE(recorder.Feed(std::string(5 << 20, 'a')));
  EXPECT_THAT(recorder.TakeLaunches(), IsEmpty());
}

}  // namespace
}  // namespace hapmoe::client
