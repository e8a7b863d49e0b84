// What callers say of schedulers, from request to answer.
#include "server/planning/launch_reader.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

v1::PlanRequest RequestFor(const std::string& scheduler) {
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_launch()->set_scheduler(scheduler);
  if (scheduler != "slurm") request.mutable_launch()->set_image("registry.example/megatron:1");
  return request;
}

class LaunchReaderTest : public ::testing::Test {
 protected:
  // The file for the scheduler.
  std::string FileOf(const v1::PlanRequest& request) {
    const auto answer = fixture_.Plan(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return "";
    answer_ = *answer;
    return answer->artifacts(answer->artifacts_size() - 1).content();
  }

  std::vector<std::string> FaultFields(const v1::PlanRequest& request) {
    const auto answer = fixture_.Plan(request);
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid) << answer.status();
    violations_ = ViolationsOf(answer.status());
    std::vector<std::string> fields;
    for (const Violation& violation : violations_) fields.push_back(violation.field);
    return fields;
  }

  PlannerFixture fixture_;
  v1::PlanAnswer answer_;
  Violations violations_;
};

TEST_F(LaunchReaderTest, AnswersWithTheFileAndTheCommandOfEachScheduler) {
  FileOf(RequestFor("slurm"));
  EXPECT_EQ(answer_.artifacts(answer_.artifacts_size() - 1).name(), "job.sbatch");
  EXPECT_THAT(answer_.submit_command(), ElementsAre("sbatch", "{}/job.sbatch", "{}"));
  FileOf(RequestFor("jobset"));
  EXPECT_EQ(answer_.artifacts(answer_.artifacts_size() - 1).name(), "jobset.yaml");
  EXPECT_THAT(answer_.submit_command(),
              ElementsAre("kubectl", "apply", "--server-side", "--filename", "{}/jobset.yaml"));
  FileOf(RequestFor("volcano"));
  EXPECT_EQ(answer_.artifacts(answer_.artifacts_size() - 1).name(), "volcano.yaml");
  FileOf(SmallPlanRequest());
  EXPECT_EQ(answer_.artifacts(0).name(), "launch.sh");
  EXPECT_THAT(answer_.submit_command(), IsEmpty());
}

TEST_F(LaunchReaderTest, KnowsWhatVendorsAndTypesAreCalled) {
  EXPECT_THAT(FileOf(RequestFor("slurm")), HasSubstr("#SBATCH --gres=gpu:8\n"));
  EXPECT_THAT(FileOf(RequestFor("jobset")), HasSubstr("nvidia.com/gpu: 8\n"));
  EXPECT_THAT(FileOf(RequestFor("jobset")), HasSubstr("nvidia.com/gpu.product: NVIDIA-H800\n"));
  v1::PlanRequest request = RequestFor("volcano");
  *request.mutable_problem()->mutable_cluster() = ClusterOf("910B", 1);
  const std::string file = FileOf(request);
  EXPECT_THAT(file, HasSubstr("huawei.com/Ascend910: 8\n"));
  EXPECT_THAT(file, HasSubstr("accelerator-type: module-910b-8\n"));
  EXPECT_THAT(file, HasSubstr("labels:\n            ring-controller.atlas: ascend-910b\n"));
}

TEST_F(LaunchReaderTest, WhatTheCallerSaysOfATypeGoesFirst) {
  v1::PlanRequest request = RequestFor("jobset");
  v1::AcceleratorPlacement& placement = *request.mutable_launch()->add_accelerators();
  placement.set_accelerator("nvidia-h800");  // An alias of H800-SXM, as is the cluster's H800.
  (*placement.mutable_node_selector())["pool"] = "h800";
  (*placement.mutable_resources())["rdma/hca"] = "8";
  const std::string file = FileOf(request);
  EXPECT_THAT(file, HasSubstr("nodeSelector:\n                pool: h800\n"));
  EXPECT_THAT(file, Not(HasSubstr("gpu.product")));
  EXPECT_THAT(file, HasSubstr("nvidia.com/gpu: 8\n"));
  EXPECT_THAT(file, HasSubstr("rdma/hca: \"8\"\n"));
}

TEST_F(LaunchReaderTest, TellsEveryFaultAtOnce) {
  v1::PlanRequest request = RequestFor("jobset");
  request.mutable_problem()->mutable_constraints()->add_tp(0);
  v1::LaunchOptions& launch = *request.mutable_launch();
  launch.set_name("No Name");
  launch.set_image("a b");
  launch.set_master_port(70000);
  launch.mutable_slurm()->set_account("x");
  launch.add_accelerators()->set_accelerator("H8000");
  launch.add_accelerators()->set_accelerator("H800");
  launch.add_accelerators()->set_accelerator("H800-SXM");
  launch.mutable_accelerators(2)->set_resource("a b");
  EXPECT_THAT(FaultFields(request),
              UnorderedElementsAre(
                  "problem.constraints.tp[0]", "launch.name", "launch.image", "launch.master_port",
                  "launch.slurm.account", "launch.accelerators[0].accelerator",
                  "launch.accelerators[2].accelerator", "launch.accelerators[2].resource"));
}

TEST_F(LaunchReaderTest, RefusesWhatIsNoScheduler) {
  EXPECT_THAT(FaultFields(RequestFor("pbs")), ElementsAre("launch.scheduler"));
  EXPECT_THAT(violations_[0].message, HasSubstr("\"slurm\" or \"jobset\" or \"volcano\""));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_launch()->set_name("a");
  EXPECT_THAT(FaultFields(request), ElementsAre("launch.scheduler"));
}

TEST_F(LaunchReaderTest, RefusesFlagScaleAndSaysWhatToDo) {
  v1::PlanRequest request = RequestFor("slurm");
  request.mutable_problem()->mutable_constraints()->set_engine("flagscale");
  const std::vector<std::string> fields = FaultFields(request);
  ASSERT_THAT(fields, ::testing::Contains("launch.scheduler"));
  for (const Violation& violation : violations_) {
    if (violation.field != "launch.scheduler") continue;
    EXPECT_EQ(violation.rule, "launch_engine_supported");
    EXPECT_THAT(violation.message, HasSubstr("over ssh"));
    EXPECT_THAT(violation.message, HasSubstr("inside of an allocation"));
  }
}

TEST_F(LaunchReaderTest, EveryEngineThatRunsOnEveryNodeIsStarted) {
  v1::PlanRequest request = RequestFor("jobset");
  request.mutable_problem()->mutable_constraints()->set_engine("primus");
  *request.mutable_problem()->mutable_cluster() = ClusterOf("MI300X", 1);
  EXPECT_THAT(FileOf(request), AllOf(HasSubstr("\n  primus.yaml: |"), HasSubstr("launch.sh: |")));
  EXPECT_EQ(answer_.plan().engine(), "primus");
}

TEST_F(LaunchReaderTest, AnyEngineIsAnyThatASchedulerCanStart) {
  v1::PlanRequest request = RequestFor("slurm");
  request.mutable_problem()->mutable_constraints()->set_engine("any");
  FileOf(request);
  EXPECT_EQ(answer_.artifacts(answer_.artifacts_size() - 1).name(), "job.sbatch");
  bool told = false;
  for (const v1::EngineComparison& engine : answer_.engines()) {
    if (engine.engine() != "flagscale") continue;
    told = true;
    EXPECT_THAT(engine.why_not(), HasSubstr("over ssh"));
  }
  EXPECT_TRUE(told);
}

TEST_F(LaunchReaderTest, PoolsOfTwoTypesMustBeToldApart) {
  v1::PlanRequest request = RequestFor("slurm");
  v1::Pool& second = *request.mutable_problem()->mutable_cluster()->add_pools();
  second.set_name("second");
  second.set_accelerator("A100");
  second.set_nodes(1);
  EXPECT_THAT(FaultFields(request), ElementsAre("launch.accelerators"));
  EXPECT_THAT(violations_[0].message, HasSubstr("A100-SXM-80GB"));
  v1::AcceleratorPlacement& placement = *request.mutable_launch()->add_accelerators();
  placement.set_accelerator("A100");
  placement.set_constraint("a100");
  EXPECT_THAT(FileOf(request), HasSubstr("#SBATCH --"));
  // Two names of one type are one type.
  request.mutable_launch()->clear_accelerators();
  second.set_accelerator("H800-SXM");
  EXPECT_THAT(FileOf(request), HasSubstr("#SBATCH --"));
}

TEST_F(LaunchReaderTest, AMissingProfileIsToldAsSuch) {
  v1::PlanRequest request = RequestFor("jobset");
  *request.mutable_problem()->mutable_cluster() = ClusterOf("Z9000", 1);
  EXPECT_EQ(ReasonOf(fixture_.Plan(request).status()), Reason::kProfileNotFound);
}

TEST_F(LaunchReaderTest, TooManyEntriesAreNotLookedAt) {
  v1::PlanRequest request = RequestFor("jobset");
  for (int i = 0; i < 65; ++i) request.mutable_launch()->add_accelerators();
  for (int i = 0; i < 65; ++i) request.mutable_launch()->add_volumes();
  EXPECT_THAT(FaultFields(request), UnorderedElementsAre("launch.accelerators", "launch.volumes"));
}

TEST_F(LaunchReaderTest, APlanThatASchedulerCannotHoldIsAFaultOfTheRequest) {
  v1::PlanRequest request = RequestFor("jobset");
  // Quotes take four bytes each in a launcher: 8 x 32,670 x 4 is more than 1 MiB less 4 KiB.
  for (int i = 0; i < 8; ++i) {
    request.mutable_problem()->mutable_job()->add_megatron_args(
        absl::StrCat("--wandb-exp-name=", std::string(32670, '\'')));
  }
  EXPECT_THAT(FaultFields(request), ElementsAre("launch.scheduler"));
  EXPECT_EQ(violations_[0].rule, "launch_scheduler_holds_plan");
  request.mutable_launch()->Clear();
  request.mutable_launch()->set_scheduler("slurm");
  FileOf(request);
}

TEST(SchedulerCatalogTest, RefusesTextsThatAreNone) {
  EXPECT_FALSE(SchedulerCatalog::Parse({"{\"schedulers\": [\"a\"], \"x\": 1}"}).ok());
  EXPECT_FALSE(SchedulerCatalog::Parse({"{\"schedulers\": [\"a\", \"a\"]}"}).ok());
  const auto catalog = SchedulerCatalog::Parse({"{\"schedulers\": [\"a\", \"b\"]}"});
  ASSERT_TRUE(catalog.ok());
  EXPECT_EQ(catalog->Find("a"), catalog->Find("b"));
  EXPECT_EQ(catalog->Find("c"), nullptr);
}

}  // namespace
}  // namespace hapmoe::server
