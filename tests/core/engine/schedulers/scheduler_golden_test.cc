// Files for schedulers, against tests/golden/schedulers. HAPMOE_REGENERATE_GOLDENS=1 writes the
// golden files instead. Of a manifest only what follows the ConfigMap is kept: the rest is the
// launcher, which has golden files of its own.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/schedulers/scheduler_cases.h"

namespace hapmoe::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void ExpectGolden(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/schedulers/", name);
  if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) {
    std::ofstream(path, std::ios::binary) << content;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), content) << path << ": HAPMOE_REGENERATE_GOLDENS=1 writes it anew";
}

class SchedulerGoldenTest : public ::testing::TestWithParam<LauncherCase> {};

TEST_P(SchedulerGoldenTest, IsAsReviewed) {
  for (const Scheduler scheduler : {Scheduler::kSlurm, Scheduler::kJobSet, Scheduler::kVolcano}) {
    SCOPED_TRACE(std::string(SchedulerName(scheduler)));
    const auto rendered =
        RenderWithScheduler(GetParam(), OptionsFor(scheduler, GetParam().cluster));
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    const Artifact& file = rendered->artifacts.back();
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(file.content, absl::MaxSplits("\n---\n", 1));
    ExpectGolden(absl::StrCat(GetParam().name, ".", file.name),
                 scheduler == Scheduler::kSlurm ? file.content : parts.second);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SchedulerGoldenTest, ::testing::ValuesIn(SchedulerCases()),
                         [](const auto& one) { return one.param.name; });

// The file that a scheduler gets for the case with this change.
std::string FileFor(Scheduler scheduler, LauncherCase launcher_case,
                    void (*change)(SchedulerOptions& options),
                    const std::vector<std::string>& arguments = {}) {
  for (const std::string& argument : arguments) launcher_case.argv.push_back(argument);
  SchedulerOptions options = OptionsFor(scheduler, launcher_case.cluster);
  change(options);
  const auto rendered = RenderWithScheduler(launcher_case, options);
  EXPECT_TRUE(rendered.ok()) << rendered.status();
  return rendered.ok() ? rendered->artifacts.back().content : "";
}

TEST(SchedulerTest, StartsAnewOnlyJobsThatLoadWhatTheySave) {
  const auto nothing = [](SchedulerOptions&) {};
  struct Case {
    std::vector<std::string> arguments;
    bool restarts;
  };
  const LauncherCase job = LauncherCaseOf("llama8b_interleaved_4x8");
  for (const Case& one :
       std::vector<Case>{{{}, false},
                         {{"--save", "/a"}, false},
                         {{"--save", "/a", "--load", "/b"}, false},
                         {{"--save", "/a", "--load", "/a"}, true},
                         {{"--save", "/a", "--load", "/a", "--finetune"}, false},
                         {{"--save", "/a", "--load", "/a", "--no-load-optim"}, false}}) {
    SCOPED_TRACE(::testing::PrintToString(one.arguments));
    EXPECT_THAT(FileFor(Scheduler::kSlurm, job, nothing, one.arguments),
                HasSubstr(one.restarts ? "#SBATCH --requeue\n" : "#SBATCH --no-requeue\n"));
    EXPECT_THAT(FileFor(Scheduler::kJobSet, job, nothing, one.arguments),
                HasSubstr(one.restarts ? "maxRestarts: 3\n" : "maxRestarts: 0\n"));
    EXPECT_THAT(FileFor(Scheduler::kVolcano, job, nothing, one.arguments),
                HasSubstr(one.restarts ? "action: RestartJob\n" : "action: AbortJob\n"));
  }
  const auto always = [](SchedulerOptions& options) { options.max_restarts = 2; };
  EXPECT_THAT(FileFor(Scheduler::kJobSet, job, always), HasSubstr("maxRestarts: 2\n"));
  EXPECT_THAT(FileFor(Scheduler::kVolcano, job, always), HasSubstr("maxRetry: 2\n"));
}

TEST(SchedulerTest, SignalsJobsThatSaveOnASignal) {
  const auto nothing = [](SchedulerOptions&) {};
  const LauncherCase job = LauncherCaseOf("llama8b_interleaved_4x8");
  EXPECT_THAT(FileFor(Scheduler::kSlurm, job, nothing), Not(HasSubstr("--signal")));
  EXPECT_THAT(FileFor(Scheduler::kSlurm, job, nothing, {"--exit-signal-handler"}),
              HasSubstr("#SBATCH --signal=TERM@120\n"));
  EXPECT_THAT(FileFor(Scheduler::kSlurm, job,
                      [](SchedulerOptions& options) { options.signal = "USR1@600"; }),
              HasSubstr("#SBATCH --signal=USR1@600\n"));
}

TEST(SchedulerTest, RunsContainersUnderSlurmByPyxis) {
  const std::string script = FileFor(
      Scheduler::kSlurm, LauncherCaseOf("mixtral_h800_a100_6x8"), [](SchedulerOptions& options) {
        options.image = "registry.example#nvidia/megatron:1";
        options.working_directory = "/workspace/it's";
        options.volumes = {{"data", "/data", "/mnt/the data", "", true}};
      });
  EXPECT_THAT(script, HasSubstr("'--container-image=registry.example#nvidia/megatron:1'\n"));
  EXPECT_THAT(script, HasSubstr("\"--container-mounts=$folder:$folder:ro\"',/mnt/the "
                                "data:/data:ro'\n"));
  EXPECT_THAT(script, HasSubstr("'--container-workdir=/workspace/it'\\''s'\n"));
}

TEST(SchedulerTest, RefusesALauncherLargerThanAConfigMap) {
  LauncherCase launcher_case = LauncherCaseOf("llama8b_interleaved_4x8");
  for (int i = 0; i < 40; ++i) {
    launcher_case.argv.push_back(absl::StrCat("--wandb-exp-name=", std::string(32000, 'x')));
  }
  for (const Scheduler scheduler : {Scheduler::kJobSet, Scheduler::kVolcano}) {
    const auto rendered =
        RenderWithScheduler(launcher_case, OptionsFor(scheduler, launcher_case.cluster));
    EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(rendered.status().message()), HasSubstr("1 MiB"));
  }
}

}  // namespace
}  // namespace hapmoe::engine
