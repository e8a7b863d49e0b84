#include "client/evaluate_batch.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/support/error_details.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/client/fake_planner.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kCluster[] = R"({"pools": [{"name": "p", "accelerator": "H100", "nodes": 2,)"
                            R"( "network": {"bytes_per_second": 25000000000.0}}]})";

std::string CaseLine(const std::string& id, int world_size) {
  return absl::StrCat(R"({"id": ")", id, R"(", "family": "x", "megatron_args": ["--bf16"], )",
                      R"("world_size": )", world_size, R"(, "cluster": )", kCluster, "}\n");
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

google::protobuf::Struct Json(const std::string& line) {
  google::protobuf::Struct object;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
  return object;
}

class EvaluateBatchTest : public ::testing::Test {
 protected:
  // Answers with a time equal to the world size.
  EvaluateBatchTest() {
    fake_.evaluate = [](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
      v1::Prediction& prediction = *response.mutable_prediction();
      prediction.set_iteration_seconds(request.world_size());
      prediction.set_low_iteration_seconds(14.5);
      prediction.set_tokens_per_second(0.1);
      prediction.set_model_flops_utilization(0.25);
      prediction.set_peak_memory_bytes(int64_t{1} << 40);
      prediction.set_fits(true);
      prediction.mutable_basis()->set_analytic_ratio(1);
      return grpc::Status::OK;
    };
  }

  RunOutcome Run(const std::string& cases) {
    return RunWords({"evaluate", "--batch", "-"}, cases, fake_.address());
  }

  FakePlanner fake_;
};

TEST_F(EvaluateBatchTest, AnswersWithJsonNumbers) {
  const RunOutcome run = Run(CaseLine("a", 16));
  EXPECT_EQ(run.code, kDone) << run.err;
  const auto has = [&](const char* part) { EXPECT_THAT(run.out, testing::HasSubstr(part)); };
  has(R"({"id": "a", "iteration_seconds": 16, "low_iteration_seconds": 14.5, )");
  has(R"("tokens_per_second": 0.1, "model_flops_utilization": 0.25, )");
  has(R"("peak_memory_bytes": 1099511627776, "allocated_memory_bytes": 1099511627776, )");
  has(R"("fits": true, "basis": {"measured_ratio": 0, "interpolated_ratio": 0, )");
  has(R"("analytic_ratio": 1, )");
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 1);
}

TEST_F(EvaluateBatchTest, SendsTheCase) {
  v1::EvaluateRequest sent;
  fake_.evaluate = [&sent](const v1::EvaluateRequest& request, v1::EvaluateResponse&) {
    sent = request;
    return grpc::Status::OK;
  };
  Run(CaseLine("a", 16));
  EXPECT_THAT(sent.job().megatron_args(), ElementsAre("--bf16"));
  EXPECT_EQ(sent.world_size(), 16);
  EXPECT_EQ(sent.cluster().pools(0).nodes(), 2u);
  EXPECT_EQ(sent.cluster().pools(0).network().bytes_per_second(), 25e9);
}

TEST_F(EvaluateBatchTest, AnswersComeInTheOrderOfTheCases) {
  const auto answer = fake_.evaluate;
  fake_.evaluate = [&answer](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    // Later cases overtake earlier ones.
    std::this_thread::sleep_for(std::chrono::milliseconds(request.world_size() * 7 % 10));
    return answer(request, response);
  };
  std::string cases;
  for (int i = 1; i <= 200; ++i) cases += CaseLine(absl::StrCat("case ", i), i);
  const RunOutcome run = Run(cases);
  EXPECT_EQ(run.code, kDone);
  const std::vector<std::string> lines = Lines(run.out);
  ASSERT_EQ(lines.size(), 200u);
  for (int i = 1; i <= 200; ++i) {
    const google::protobuf::Struct object = Json(lines[static_cast<size_t>(i - 1)]);
    EXPECT_EQ(object.fields().at("id").string_value(), absl::StrCat("case ", i));
    EXPECT_EQ(object.fields().at("iteration_seconds").number_value(), i);
  }
}

TEST_F(EvaluateBatchTest, KeepsSeveralCallsInFlightAndNoMoreThanTheWindow) {
  std::atomic<int> in_flight = 0;
  std::atomic<int> most = 0;
  fake_.evaluate = [&](const v1::EvaluateRequest&, v1::EvaluateResponse&) {
    int seen = most;
    const int now = ++in_flight;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --in_flight;
    return grpc::Status::OK;
  };
  std::string cases;
  for (int i = 1; i <= 100; ++i) cases += CaseLine("x", i);
  Run(cases);
  EXPECT_GT(most, 1);
  EXPECT_LE(most, 16);
}

TEST_F(EvaluateBatchTest, BadLinesAreAnsweredAndTheRestGoesOn) {
  const RunOutcome run =
      Run("nonsense\n"
          "\n"
          "[1]\n" +
          CaseLine("good", 8) +
          R"({"id": 7, "megatron_args": "x"})"
          "\n"
          R"({"id": "args", "megatron_args": [1], "cluster": {}})"
          "\n"
          R"({"id": "world", "megatron_args": [], "world_size": "8", "cluster": {}})"
          "\n"
          R"({"id": "none", "megatron_args": []})"
          "\n"
          R"({"id": "cluster", "megatron_args": [], "cluster": {"pools": [{"name": "a",)"
          R"( "accelerator": "b", "nodes": "4"}]}})"
          "\n"
          R"({"id": {"x": 1}, "megatron_args": [], "cluster": 3})"
          "\n" +
          CaseLine("last", 9).substr(0, CaseLine("last", 9).size() - 1));
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(
      Lines(run.out),
      ElementsAre(
          R"({"error": "line 1 is not a JSON object", "violations": []})",
          R"({"error": "line 3 is not a JSON object", "violations": []})", HasSubstr(R"("good")"),
          R"({"id": 7, "error": "megatron_args must be a list of strings", "violations": []})",
          R"({"id": "args", "error": "megatron_args must be a list of strings", "violations": []})",
          R"({"id": "world", "error": "world_size must be a whole number above 0", "violations": []})",
          R"({"id": "none", "error": "cluster is missing", "violations": []})",
          HasSubstr(R"("error": "cluster: nodes must be a whole number above 0, not \"4\" in)"),
          R"({"error": "cluster: a cluster must be a map, not \"3\"", "violations": []})",
          HasSubstr(R"("last")")));
}

TEST_F(EvaluateBatchTest, RefusalsCarryTheirViolations) {
  fake_.evaluate = [](const v1::EvaluateRequest&, v1::EvaluateResponse&) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field("--num-experts");
    violation->set_description("7 is not \"divisible\"");
    violation->set_reason("experts_divide");
    google::rpc::Status rich;
    rich.set_code(grpc::StatusCode::INVALID_ARGUMENT);
    rich.set_message("1 fault");
    rich.add_details()->PackFrom(bad);
    grpc::Status status;
    grpc::SetErrorDetails(rich, &status);
    return status;
  };
  const RunOutcome run = Run(CaseLine("a", 1));
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(run.err, IsEmpty());
  EXPECT_EQ(run.out, R"({"id": "a", "error": "1 fault", "violations": [{"field": "--num-experts", )"
                     R"("description": "7 is not \"divisible\"", "rule": "experts_divide"}]})"
                     "\n");
}

TEST_F(EvaluateBatchTest, AFullQueueIsWaitedFor) {
  std::atomic<int> calls = 0;
  const auto answer = fake_.evaluate;
  fake_.evaluate = [&](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    if (++calls % 2 == 1) {
      google::rpc::RetryInfo retry;
      retry.mutable_retry_delay()->set_nanos(1'000'000);
      google::rpc::Status rich;
      rich.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
      rich.add_details()->PackFrom(retry);
      grpc::Status status;
      grpc::SetErrorDetails(rich, &status);
      return status;
    }
    return answer(request, response);
  };
  std::string cases;
  for (int i = 1; i <= 20; ++i) cases += CaseLine("x", i);
  const RunOutcome run = Run(cases);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(Lines(run.out).size(), 20u);
  EXPECT_EQ(run.out.find("error"), std::string::npos);
}

TEST_F(EvaluateBatchTest, OneFailureOfTheServerDoesNotEndTheOthers) {
  const auto answer = fake_.evaluate;
  fake_.evaluate = [&](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    if (request.world_size() == 2) return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
    return answer(request, response);
  };
  const RunOutcome run = Run(CaseLine("a", 1) + CaseLine("b", 2) + CaseLine("c", 3));
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, HasSubstr("broken"));
  EXPECT_THAT(Lines(run.out), ElementsAre(HasSubstr(R"("a")"),
                                          R"({"id": "b", "error": "broken", "violations": []})",
                                          HasSubstr(R"("c")")));
}

TEST_F(EvaluateBatchTest, ItEndsWhereTheServerIsGone) {
  std::string cases;
  for (int i = 1; i <= 100; ++i) cases += CaseLine("x", i);
  const RunOutcome run =
      RunWords({"evaluate", "--batch", "-", "--server", "127.0.0.1:1", "--deadline", "3"}, cases);
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_EQ(Lines(run.out).size(), 16u);
  EXPECT_THAT(run.err, HasSubstr("no case after line 16 was evaluated"));
}

TEST_F(EvaluateBatchTest, LongLinesAreAnsweredToo) {
  const RunOutcome run = Run(std::string(5 << 20, 'x') + "\n" + CaseLine("a", 1));
  EXPECT_THAT(Lines(run.out), ElementsAre(HasSubstr("line 1 is longer than"), HasSubstr(R"("a")")));
}

TEST_F(EvaluateBatchTest, RandomBytesGetOneAnswerALine) {
  constexpr unsigned kSeed = 5;
  std::mt19937 random(kSeed);
  std::string cases;
  int lines = 0;
  for (int i = 0; i < 300; ++i) {
    std::string line = CaseLine("x", 1);
    line.pop_back();
    for (int edits = 0; edits < 4; ++edits) {
      char c = static_cast<char>(random());
      if (c == '\n') c = '"';
      line[random() % line.size()] = c;
    }
    cases += line + "\n";
    ++lines;
  }
  const RunOutcome run = Run(cases);
  EXPECT_EQ(run.code, kDone) << "seed " << kSeed;
  EXPECT_EQ(Lines(run.out).size(), static_cast<size_t>(lines));
  for (const std::string& line : Lines(run.out)) Json(line);
}

}  // namespace
}  // namespace hapmoe::client
