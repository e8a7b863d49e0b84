// The examples of deploy/examples that hand plans to schedulers: scripts with stand-ins for the
// programs that they call, and files as the client and the planner read them.
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster_file.h"
#include "client/options.h"
#include "client/scheduler_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/schedulers/sandbox.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/requests.h"

namespace hapmoe {
namespace {

using engine::Sandbox;
using engine::SandboxOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Environment = std::map<std::string, std::string>;

std::string Example(const std::string& name) {
  return absl::StrCat(HAPMOE_SOURCE_DIR, "/deploy/examples/", name);
}

std::string ReadExample(const std::string& name) {
  std::ifstream file(Example(name), std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// Plans, or fails as hapmoe does where nothing fits.
constexpr char kHapmoe[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/hapmoe"
if [[ -n ${STUB_MISFIT:-} ]]; then
  echo "hapmoe: this cannot be done as asked: No plan fits." >&2
  exit 1
fi
while [[ $1 != --out ]]; do shift; done
mkdir -p "$2"
touch "$2/job.sbatch" "$2/jobset.yaml" "$2/volcano.yaml"
echo "Plan abc"
)BASH";

constexpr char kSubmit[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/submit"
[[ -f $1 || -f ${!#} ]] || exit 9
echo submitted
)BASH";

class ExampleScriptTest : public ::testing::Test {
 protected:
  ExampleScriptTest() {
    sandbox_.Write("bin/hapmoe", kHapmoe);
    sandbox_.Write("bin/sbatch", kSubmit);
    sandbox_.Write("bin/kubectl", kSubmit);
  }

  SandboxOutcome Run(const std::string& script, const std::vector<std::string>& words,
                     const Environment& environment) {
    sandbox_.Clear();
    std::vector<std::string> all = {Example(script)};
    all.insert(all.end(), words.begin(), words.end());
    return sandbox_.Run(all, environment);
  }

  Sandbox sandbox_;
};

TEST_F(ExampleScriptTest, SlurmGetsThePlan) {
  const std::string plan = sandbox_.Path("my plan");
  const SandboxOutcome outcome =
      Run("slurm-submit.sh", {"--cluster", "c d", "--", "--out", "x"}, {{"PLAN_DIR", plan}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "submitted\n");
  EXPECT_THAT(outcome.error, HasSubstr("Plan abc"));
  EXPECT_THAT(sandbox_.ReadWords("out/hapmoe"),
              ElementsAre("plan", "--scheduler", "slurm", "--out", plan, "--cluster", "c d", "--",
                          "--out", "x"));
  EXPECT_THAT(sandbox_.ReadWords("out/submit"), ElementsAre(plan + "/job.sbatch", plan));
  // A folder of its own where none is named.
  EXPECT_EQ(Run("slurm-submit.sh", {}, {}).exit_code, 0);
  EXPECT_THAT(sandbox_.ReadWords("out/submit")[1],
              ::testing::StartsWith(sandbox_.Path("work/plans/")));
}

TEST_F(ExampleScriptTest, KubernetesGetsThePlan) {
  for (const char* scheduler : {"jobset", "volcano"}) {
    const std::string plan = sandbox_.Path("plan");
    const SandboxOutcome outcome = Run("kubernetes-submit.sh", {"--cluster", "c"},
                                       {{"PLAN_DIR", plan}, {"SCHEDULER", scheduler}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_THAT(sandbox_.ReadWords("out/hapmoe"),
                ElementsAre("plan", "--scheduler", scheduler, "--out", plan, "--cluster", "c"));
    EXPECT_THAT(sandbox_.ReadWords("out/submit"),
                ElementsAre("apply", "--server-side", "--filename",
                            absl::StrCat(plan, "/", scheduler, ".yaml")));
  }
}

TEST_F(ExampleScriptTest, NothingIsSubmittedWhereNothingFits) {
  for (const char* script : {"slurm-submit.sh", "kubernetes-submit.sh"}) {
    const SandboxOutcome outcome = Run(script, {"--cluster", "c"}, {{"STUB_MISFIT", "1"}});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.error, "hapmoe: this cannot be done as asked: No plan fits.\n");
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(sandbox_.ReadWords("out/submit"), IsEmpty());
    for (const char* option : {"--out", "--scheduler=slurm"}) {
      EXPECT_EQ(Run(script, {option, "x"}, {}).exit_code, 2);
      EXPECT_THAT(sandbox_.ReadWords("out/hapmoe"), IsEmpty());
    }
  }
}

TEST(ExampleFilesTest, ThePlannerTakesTheSchedulerFiles) {
  for (const auto& [scheduler, file] :
       std::map<std::string, std::string>{{"slurm", "slurm.yaml"},
                                          {"jobset", "kubernetes.yaml"},
                                          {"volcano", "kubernetes.yaml"}}) {
    SCOPED_TRACE(scheduler);
    v1::PlanRequest request = server::SmallPlanRequest();
    request.mutable_problem()->mutable_constraints()->set_allow_idle_accelerators(true);
    ASSERT_THAT(client::ParseCluster(ReadExample("h800-a100.yaml"),
                                     *request.mutable_problem()->mutable_cluster()),
                IsEmpty());
    ASSERT_THAT(client::ParseSchedulerFile(ReadExample(file), *request.mutable_launch()),
                IsEmpty());
    request.mutable_launch()->set_scheduler(scheduler);
    server::PlannerFixture fixture;
    const auto answer = fixture.Plan(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->submit_command().empty());
  }
}

TEST(ExampleFilesTest, ThePlannerJobAsksAndApplies) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(ReadExample("planner-job.yaml"));
  ASSERT_EQ(documents.size(), 4u);
  const YAML::Node pod = documents[0]["spec"]["template"]["spec"];
  auto words = pod["initContainers"][0]["command"].as<std::vector<std::string>>();
  ASSERT_EQ(words.front(), "hapmoe");
  words.erase(words.begin());
  const auto options = client::ParseOptions(words);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->command, client::Command::kPlan);
  EXPECT_EQ(options->scheduler, "jobset");
  EXPECT_THAT(pod["containers"][0]["command"].as<std::vector<std::string>>(),
              ElementsAre("kubectl", "apply", "--server-side", "--filename",
                          options->out + "/jobset.yaml"));
  // Both containers mount the folder of the plan, and may do what is asked of them.
  for (const YAML::Node& container : {pod["initContainers"][0], pod["containers"][0]}) {
    std::set<std::string> mounted;
    for (const YAML::Node& mount : container["volumeMounts"]) {
      mounted.insert(mount["mountPath"].Scalar());
    }
    EXPECT_EQ(mounted.count(options->out), 1u);
  }
  for (const YAML::Node& document : documents) {
    EXPECT_EQ(document["metadata"]["name"].Scalar(), pod["serviceAccountName"].Scalar());
  }
}

}  // namespace
}  // namespace hapmoe
