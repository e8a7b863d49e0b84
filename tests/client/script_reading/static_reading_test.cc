#include "client/script_reading/static_reading.h"

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
using ::testing::SizeIs;

class StaticReadingTest : public ::testing::Test, public ScriptFixture {
 protected:
  std::string Refusal(const std::string& script) const {
    const absl::StatusOr<ScriptRun> run = ReadStatically(script);
    return run.ok() ? "" : std::string(run.status().message());
  }
};

struct Uncertain {
  const char* script;
  const char* refusal;
};

TEST_F(StaticReadingTest, NothingIsGuessed) {
  for (const Uncertain& each : std::vector<Uncertain>{
           {"\ntorchrun t.py $(date)", "job.sh:2: a word of the launch depends on date"},
           {"torchrun t.py --save x-$(git rev-parse HEAD)", "the value of --save depends on git"},
           {"X=$UID\nexport NCCL_X=$X\ntorchrun t.py",
            "job.sh:3: the launch's NCCL_X depends on $UID of line 1"},
           {"for f in $(find .); do torchrun t.py; done",
            "what the loop goes over depends on find"},
           {"A=($(find .))\ntorchrun t.py ${#A[@]}", "the number of elements of A depends on find"},
           {"case $(uname) in Linux) torchrun t.py;; esac", "a case depends on uname"},
           {"[ $(nproc) -gt 4 ] && torchrun t.py", "the words of [ depends on nproc"},
           {"set -e\nsed -i s/a/b/ x\ntorchrun t.py", "job.sh:2: whether set -e ends the script"},
           {"cp a.sh b.sh\nsource b.sh\ntorchrun t.py", "b.sh is changed by the script itself"},
           {"cd /workspace\n[ -f x.py ] && torchrun t.py",
            "what follows && depends on the file x.py"},
           {"cd /workspace\n. ./env.sh; torchrun t.py",
            "a directory that is only taken to be there"},
           {"torchrun t.py $U{1..3}", "braces after $NAME are not read"},
           {"torchrun t.py ${U:-{a,b}}", "braces inside of ${...} are not read"},
           {"torchrun t.py ${U:-~/x}", "inside of ${...} is not read"},
           {"source /etc/profile\ntorchrun t.py", "/etc/profile is a file of the system"},
           {"[ -x /usr/bin/nvcc ] && torchrun t.py", "depends on the file /usr/bin/nvcc"},
           {"set -u\ntorchrun t.py $X", "job.sh:2: X is not set"},
           {"torchrun t.py ${X:?give a model}", "X must be set (--env X=...): give a model"},
           {"$(curl http://x/install.sh)", "the name of a command depends on curl"},
           {"eval \"$(ssh-agent)\"\ntorchrun t.py", "eval depends on"},
           {"if true; then torchrun t.py", "\"fi\" is missing"},
           {"torchrun t.py \"abc", "a quote is not closed"},
           // The body is a text of its own, at whose end the fault leaves the reader.
           {"cat << E\n${X:-$(if true}\nE\ntorchrun t.py", "\"then\" is missing"},
           {"cat << E\n${X:-$(echo \nE\ntorchrun t.py", "\")\" is missing"},
           {"torchrun t.py $((1 / 0))", "division by zero"},
           {"torchrun t.py {9223372036854775800..9223372036854775807}", "very many words"},
           {"torchrun t.py {1..10001}", "very many words"},
           {"a[9223372036854775807]=x; torchrun t.py", "a very large index"},
           {"a=([9223372036854775807]=x y); torchrun t.py", "a very large index"},
           {"bash -o pipefail job.sh", "options of bash before a file"},
           {"torchrun t.py ${x@Q}", "${...} of a form that is not read"},
           {"shopt -s nullglob\ntorchrun t.py *.x", "shopt nullglob is not read"},
           {"declare -A m=([a]=1 [b]=2)\ntorchrun t.py ${m[@]}", "the order of what is in m"},
           {"find . -exec torchrun t.py \\;", "what find starts is not followed"},
           {"cat <(torchrun t.py) | bash",
            "the name of a file depends on a process substitution"}}) {
    EXPECT_THAT(Refusal(each.script), HasSubstr(each.refusal)) << each.script;
  }
}

TEST_F(StaticReadingTest, LinesOfSourcedFilesAreNamed) {
  Write("inc.sh", "\n\nshopt -s extglob\n");
  EXPECT_THAT(Refusal("\n. ./inc.sh"), HasSubstr("(in ./inc.sh, sourced at line 2)"));
  EXPECT_THAT(Refusal("\nbash inc.sh"), HasSubstr("(in inc.sh, run at line 2)"));
}

TEST_F(StaticReadingTest, WhatIsAssumedIsNoted) {
  const absl::StatusOr<ScriptRun> run = ReadStatically(
      "module load cuda\ncd /workspace\n. /opt/env.sh\n[ -d /data ] && exit\ntorchrun t.py");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->launches, SizeIs(1));
  EXPECT_THAT(run->notes, Contains("line 2: the directory /workspace is taken to be there"));
  EXPECT_THAT(run->notes, Contains("line 3: /opt/env.sh is not there and is passed over"));
  EXPECT_THAT(run->notes, Contains("line 4: /data is taken not to be there"));
  EXPECT_THAT(run->notes, Contains(HasSubstr("did nothing: module")));
}

// What a hostile script tries. The reading starts no process and writes nothing; it must end, in
// bounded time and memory, and show nothing that is not the job's.

TEST_F(StaticReadingTest, NothingIsWrittenOrRun) {
  const fs::path victim = root_.Write("outside/victim", "precious");
  Write("data.txt", "precious");
  (void)ReadStatically(absl::StrCat("rm -rf ", root_.path().string(), "; rm -rf / ; echo x > ",
                                    victim.string(), "; echo x > data.txt; mkdir made; touch t; ",
                                    "exec 3<>/dev/tcp/127.0.0.1/22; kill -9 -1; torchrun t.py"));
  (void)ReadStatically(
      "echo x > $0; python -c 'open(\"p\",\"w\")'; `touch q`; $(touch r); touch s");
  EXPECT_EQ(fs::file_size(victim), 8u);
  EXPECT_EQ(fs::file_size(root_ / "job" / "data.txt"), 8u);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root_ / "job")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("job.sh", "data.txt"));
}

TEST_F(StaticReadingTest, WhatIsNotTheJobsIsNotRead) {
  const fs::path secret = root_.Write("outside/secret", "secret");
  Write(".token", "secret");
  fs::create_symlink(secret, root_ / "job" / "link");
  for (const std::string& path : {secret.string(), std::string("link"), std::string(".token"),
                                  std::string("../outside/secret"), std::string("/etc/passwd"),
                                  std::string("/proc/self/environ")}) {
    for (const std::string& how :
         {absl::StrCat("$(cat ", path, ")"), absl::StrCat("$(< ", path, ")"),
          absl::StrCat("$(head -n 1 ", path, ")")}) {
      const absl::StatusOr<ScriptRun> run = ReadStatically(absl::StrCat("torchrun t.py ", how));
      if (!run.ok()) continue;
      ASSERT_THAT(run->launches, SizeIs(1));
      EXPECT_THAT(run->launches[0].arguments, IsEmpty()) << how;
    }
  }
  const absl::StatusOr<ScriptRun> names = ReadStatically("torchrun t.py .t* l*/x ../outside/*");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->launches[0].arguments, ElementsAre(".t*", "l*/x", "../outside/*"));
}

TEST_F(StaticReadingTest, ScriptsWithoutEndAreRefused) {
  std::string doubling = "a0=x\n";
  for (int i = 1; i < 60; ++i) {
    absl::StrAppend(&doubling, "a", i, "='a", i - 1, "+a", i - 1, "'\n");
  }
  const auto repeat = [](const std::string& text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  std::string nested(100000, '(');
  std::string substitutions;
  std::string documents;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&substitutions, "$(echo ");
    absl::StrAppend(&documents, "cat <<E", i, "\n$(");
  }
  for (const std::string& script : std::vector<std::string>{
           "while :; do :; done",
           "f() { f; }; f",
           "f() { f | f; }; f",
           "f() { f & f & }; f",
           ":(){ :|:& };:",
           "bash $0",
           ". job.sh",
           "exec bash $0",
           "eval 'eval \"$x\"' ; bash job.sh",
           "x=a; while :; do x=$x$x; done",
           "x=aaaaaaaaaaaaaaaa; for i in {1..40}; do x=$x$x; done",
           "A=(1 2 3 4); while :; do A+=(\"${A[@]}\"); done",
           "echo {1..9999}{1..9999}{1..9999}",
           "for ((;;)); do :; done",
           "trap 'bash $0' EXIT",
           "x='x'; echo $((x))",
           "true" + repeat(" && true", 100000),
           "true" + repeat("|:", 100000),
           "echo $((2" + repeat("**1", 100000) + "))",
           "echo $((" + std::string(100000, '-') + "1))",
           "[ " + repeat("! ", 100000) + "x ]",
           "[[ " + repeat("! ", 100000) + "x ]]",
           "echo " + repeat("{a,b}", 100000),
           "echo " + repeat("${x:-", 100000),
           repeat("if :; then ", 100000),
           repeat("f() ", 100000),
           repeat("{ ", 100000),
           "x='" + repeat("a", 500000) + "'; while :; do (:); done",
           "A=({1..9999}); while :; do (:); done",
           "echo \"" + repeat("$(", 100000),
           repeat("case x in x) ", 100000),
           repeat("! ", 100000) + "true",
           doubling + "echo $((a59))",
           nested,
           "echo " + substitutions,
           documents,
           "x=$(printf '%0999d' 1); x=$x$x$x$x; y=${x//*a*b*/c}; while :; do y=${x//*1*2*/}; done",
           "printf '%s' {1..9000} > f; while :; do cat f >> f; done",
           "for i in {1..70}; do a[i]=$i; torchrun t.py $i; done; while :; do :; done",
           "until torchrun t.py; false; do :; done",
           "set -- a; for i in {1..40}; do set -- \"$@\" \"$@\"; done",
           "f() { f \"$@\" \"$@\"; }; f a",
           "set -- a; for i in {1..60}; do set -- \"$1$1\"; done"}) {
    const std::clock_t start = std::clock();
    (void)ReadStatically(script);
    // Far more than any takes here; what does not end would be killed by the test's own limit.
    EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 30) << script.substr(0, 100);
  }
  EXPECT_THAT(Refusal("while :; do :; done"), HasSubstr("goes on for longer than is followed"));
  EXPECT_THAT(Refusal("f() { f; }; f"), HasSubstr("nested too deep"));
}

TEST_F(StaticReadingTest, ControlCharactersAreRefused) {
  EXPECT_THAT(Refusal(std::string("torchrun t.py \1") + "0\2"), HasSubstr("control character"));
  EXPECT_THAT(Refusal(std::string("torchrun\0x", 10)), HasSubstr("control character"));
  request_.arguments = {"\1"};
  EXPECT_THAT(Refusal("torchrun t.py $1"), HasSubstr("control characters"));
}

TEST_F(StaticReadingTest, NoTextBreaksIt) {
  const std::string seedling =
      "A=(--a \"$1\" ${x:-y} $((2*3)) `echo z`)\nfor i in {1..3}; do case $i in [12]) A+=($i);; "
      "esac; done\nwhile read -r l; do [[ $l == a* ]] && x=${l#a}; done <<< \"abc\"\n"
      "cat <<E > f\n$x $(pwd)\nE\nif [ -f f ]; then torchrun --nnodes 2 t.py \"${A[@]}\" '*' >&2; "
      "fi\nf() { local a=$1; shift; echo ${a//x/y} \"${@:1}\"; }; srun -n 2 bash -c \"$(f 1 2)\"\n";
  const unsigned seed = 20260101;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::string noise = "$(){}[]'\"`\\;&|<>#!*?~=+-@:,%^/ \n\t0a_\r";
  for (int i = 0; i < 1500; ++i) {
    std::string text = seedling;
    const int edits = 1 + static_cast<int>(random() % 6);
    for (int k = 0; k < edits && !text.empty(); ++k) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 20);
          break;
        case 1:
          text.insert(at, 1, noise[random() % noise.size()]);
          break;
        case 2:
          text[at] = noise[random() % noise.size()];
          break;
        default:
          const size_t from = random() % text.size();
          text.insert(at, text.substr(from, random() % 40));
      }
    }
    Write("job.sh", text);
    const absl::StatusOr<ScriptRun> run = ReadScriptStatically(request_);
    if (!run.ok()) {
      EXPECT_THAT(std::string(run.status().message()), HasSubstr("job.sh:")) << text;
    }
  }
}

}  // namespace
}  // namespace hapmoe::client
