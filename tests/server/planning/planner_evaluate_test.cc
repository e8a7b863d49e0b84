// The layout that a job's own arguments give.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "server/planning/planner.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;

TEST(Planner, EvaluateKeepsALayoutThatDoesNotFit) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  // 200 layers of width 8192 on 8 accelerators.
  for (const char* argument : {"--num-layers", "200", "--hidden-size", "8192",
                               "--num-attention-heads", "64", "--ffn-hidden-size", "32768"}) {
    request.mutable_job()->add_megatron_args(argument);
  }
  const auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->prediction().fits());
  EXPECT_GT(response->prediction().peak_memory_bytes(), int64_t{80} << 30);
}

TEST(Planner, EvaluateListsOperationsWhereItIsAsked) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->operations_size(), 0);
  request.set_list_operations(true);
  response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  double time = 0;
  for (const v1::OperationCoverage& one : response->operations()) time += one.time_ratio();
  EXPECT_NEAR(time, 1, 1e-9);
}

TEST(Planner, EvaluateRefusesAWorldLargerThanTheCluster) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(16);
  const auto response = fixture.planner().Evaluate(request);
  EXPECT_EQ(ReasonOf(response.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("world_size"));
}

TEST(Planner, EvaluateUsesPartOfTheCluster) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(4);
  const auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->plan().world_size(), 4);
  EXPECT_EQ(response->plan().idle_accelerators(), 4);
}

}  // namespace
}  // namespace hapmoe::server
