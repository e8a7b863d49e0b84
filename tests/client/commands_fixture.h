// hapmoe from its words to its exit code, against a planner in this process.
#ifndef HAPMOE_TESTS_CLIENT_COMMANDS_FIXTURE_H_
#define HAPMOE_TESTS_CLIENT_COMMANDS_FIXTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/fake_planner.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {

// A planner that answers each problem with the same plan, and a cluster file.
class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    cluster_ = root_.Write("cluster.yaml", "pools: [{name: a, accelerator: H800, nodes: 4}]\n");
    fake_.plan = [this](const v1::PlanRequest& request, v1::PlanResponse& response) {
      plan_request_ = request;
      *response.mutable_answer() = answer_;
      return grpc::Status::OK;
    };
    v1::ExecutionPlan& plan = *answer_.mutable_plan();
    plan.set_plan_id("abc");
    plan.set_engine("megatron-lm");
    plan.set_world_size(32);
    v1::Artifact& artifact = *answer_.add_artifacts();
    artifact.set_name("launch.sh");
    artifact.set_content("#!/bin/bash\n");
    artifact.set_executable(true);
  }

  RunOutcome Run(std::vector<std::string> words, const std::string& input = "") {
    return RunWords(words, input, fake_.address());
  }

  FakePlanner fake_;
  JobDirectory root_;
  std::string cluster_;
  v1::PlanAnswer answer_;
  v1::PlanRequest plan_request_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_TESTS_CLIENT_COMMANDS_FIXTURE_H_
