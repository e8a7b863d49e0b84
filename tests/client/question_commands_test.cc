// hapmoe evaluate, frontier and explain: what else is asked of a job and a cluster.
#include <google/protobuf/util/json_util.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands_fixture.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CommandsTest, EvaluateSendsTheLayoutAndAMisfitIsAnAnswer) {
  v1::EvaluateRequest sent;
  fake_.evaluate = [&sent](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    sent = request;
    v1::Stage& stage = *response.mutable_plan()->add_meshes()->add_stages();
    stage.set_ranks(1);
    stage.mutable_memory()->set_peak_bytes(int64_t{90} << 30);
    stage.mutable_memory()->set_budget_bytes(int64_t{80} << 30);
    response.mutable_prediction()->set_iteration_seconds(2);
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"evaluate", "--cluster", cluster_, "--world-size", "16", "--headroom",
                              "0", "--", "--tensor-model-parallel-size", "2"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("DOES NOT FIT"),
                             HasSubstr("stage 0 needs 10.00 GiB more than its 80.00 GiB")));
  EXPECT_EQ(sent.world_size(), 16);
  EXPECT_TRUE(sent.has_memory_headroom_ratio());
  EXPECT_THAT(sent.job().megatron_args(), ElementsAre("--tensor-model-parallel-size", "2"));
}

TEST_F(CommandsTest, FrontierSendsSizesAndShowsPoints) {
  v1::FrontierRequest sent;
  fake_.frontier = [&sent](const v1::FrontierRequest& request, v1::FrontierResponse& response) {
    sent = request;
    v1::FrontierPoint& point = *response.add_points();
    v1::PoolNodes& nodes = *point.add_allocation();
    nodes.set_pool("a");
    nodes.set_nodes(2);
    point.set_iteration_seconds(1.5);
    return grpc::Status::OK;
  };
  const std::vector<std::string> words = {
      "frontier", "--cluster",    cluster_,       "--sizes", "a=2", "--memory-steps",
      "1",        "--allow-idle", "--request-id", "r1",      "--",  "--num-layers",
      "32"};
  const RunOutcome run = Run(words);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("a 2 nodes"), HasSubstr("1.500 s")));
  EXPECT_EQ(sent.request_id(), "r1");
  EXPECT_EQ(sent.memory_steps(), 1);
  ASSERT_EQ(sent.sizes_size(), 1);
  EXPECT_THAT(sent.sizes(0).nodes(), ElementsAre(2));
  EXPECT_TRUE(sent.problem().constraints().allow_idle_accelerators());
  EXPECT_THAT(sent.problem().job().megatron_args(), ElementsAre("--num-layers", "32"));

  std::vector<std::string> json = words;
  json.insert(json.begin() + 1, {"-o", "json"});
  v1::FrontierResponse printed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Run(json).out, &printed).ok());
  EXPECT_EQ(printed.points(0).iteration_seconds(), 1.5);
}

TEST_F(CommandsTest, ExplainSendsTheLayoutAndShowsSentences) {
  v1::ExplainRequest sent;
  fake_.explain = [&sent](const v1::ExplainRequest& request, v1::ExplainResponse& response) {
    sent = request;
    response.add_sentences("It is slower.");
    return grpc::Status::OK;
  };
  const std::vector<std::string> words = {
      "explain", "--cluster", cluster_, "--world-size", "16", "--", "--tensor-model-parallel-size",
      "2"};
  const RunOutcome run = Run(words);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, HasSubstr("- It is slower.\n"));
  EXPECT_EQ(sent.world_size(), 16);
  EXPECT_THAT(sent.problem().job().megatron_args(),
              ElementsAre("--tensor-model-parallel-size", "2"));

  std::vector<std::string> json = words;
  json.insert(json.begin() + 1, {"-o", "json"});
  v1::ExplainResponse printed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Run(json).out, &printed).ok());
  EXPECT_THAT(printed.sentences(), ElementsAre("It is slower."));
}

TEST_F(CommandsTest, FailuresOfFrontierAndExplainAreReported) {
  fake_.frontier = [](const v1::FrontierRequest&, v1::FrontierResponse&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "too many allocations");
  };
  fake_.explain = [](const v1::ExplainRequest&, v1::ExplainResponse&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "nothing fits");
  };
  for (const std::string command : {"frontier", "explain"}) {
    SCOPED_TRACE(command);
    const RunOutcome run = Run({command, "--cluster", cluster_, "--", "--bf16"});
    EXPECT_EQ(run.code, kRefused);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(command == "frontier" ? "too many" : "nothing fits"));
    EXPECT_EQ(Run({command, "--", "--bf16"}).code, kUsage);
  }
}

}  // namespace
}  // namespace hapmoe::client
