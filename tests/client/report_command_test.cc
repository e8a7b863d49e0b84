// hapmoe report from its words to its exit code, against a planner in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/fake_planner.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    fake_.report = [this](const v1::ReportIterationRequest& request,
                          v1::ReportIterationResponse& response) {
      asked_ = request.report();
      response.mutable_stored()->set_name("r1");
      response.mutable_stored()->mutable_report()->set_iteration_seconds(5.3);
      response.mutable_stored()->set_corrected_seconds(5.2);
      response.mutable_stored()->set_weight(weight_);
      response.set_predicted_before_seconds(4.5);
      response.set_fit_pending(fit_pending_);
      return grpc::Status::OK;
    };
  }

  RunOutcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), "report");
    words.push_back("--server=" + fake_.address());
    return RunWords(words);
  }

  FakePlanner fake_;
  JobDirectory root_;
  v1::IterationReport asked_;
  double weight_ = 1;
  bool fit_pending_ = false;
};

TEST_F(ReportTest, SendsTheJobAndWhatWasMeasured) {
  const std::string cluster =
      root_.Write("c.yaml", "pools: [{name: a, accelerator: H800, nodes: 4}]\n");
  const std::string job = root_.Write("args", "--num-layers 8\n");
  const RunOutcome run =
      Run({"--cluster", cluster, "--args-file", job, "--world-size", "16", "--seconds", "5.3",
           "--memory-gib", "40", "--reserved-gib", "44.5", "--rho", "1.25"});
  ASSERT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(asked_.job().megatron_args_size(), 2);
  EXPECT_EQ(asked_.cluster().pools(0).nodes(), 4u);
  EXPECT_EQ(asked_.world_size(), 16);
  EXPECT_EQ(asked_.iteration_seconds(), 5.3);
  EXPECT_EQ(asked_.allocated_memory_bytes(), int64_t{40} << 30);
  EXPECT_EQ(asked_.reserved_memory_bytes(), int64_t{89} << 29);
  EXPECT_EQ(asked_.load_imbalance(), 1.25);
  EXPECT_THAT(run.out, HasSubstr("5.300 s measured, 4.500 s predicted before, 5.200 s from now"));
  EXPECT_THAT(run.out, Not(HasSubstr("set aside")));
}

TEST_F(ReportTest, APlanGoesByItsIdUnlessItsJobIsGiven) {
  const std::string plan = root_.Write(
      "plan.json", R"({"answer": {"plan": {"plan_id": "abc", "meshes": [{"tp": 2}]}}})");
  ASSERT_EQ(Run({"--plan", plan, "--seconds", "5"}).code, kDone);
  EXPECT_EQ(asked_.plan_id(), "abc");
  EXPECT_FALSE(asked_.has_plan());
  const std::string cluster =
      root_.Write("c.yaml", "pools: [{name: a, accelerator: H800, nodes: 4}]\n");
  const std::string job = root_.Write("args", "--num-layers 8\n");
  ASSERT_EQ(Run({"--plan", plan, "--seconds", "5", "--cluster", cluster, "--args-file", job}).code,
            kDone);
  EXPECT_EQ(asked_.plan().meshes(0).tp(), 2);
  EXPECT_TRUE(asked_.has_job());
}

TEST_F(ReportTest, ReadsWhatTheProfilerMeasured) {
  const std::string measured =
      root_.Write("report.json", R"({"plan_id": "abc", "iteration_seconds": 5.25})");
  ASSERT_EQ(Run({"--measured", measured}).code, kDone);
  EXPECT_EQ(asked_.plan_id(), "abc");
  EXPECT_EQ(asked_.iteration_seconds(), 5.25);
}

TEST_F(ReportTest, SaysWhereAReportIsSetAside) {
  weight_ = 0.001;
  EXPECT_THAT(Run({"--plan-id", "abc", "--seconds", "500"}).out, HasSubstr("set aside"));
}

TEST_F(ReportTest, SaysWhereTheCorrectionFollows) {
  weight_ = 0;  // Not known yet.
  fit_pending_ = true;
  const RunOutcome run = Run({"--plan-id", "abc", "--seconds", "5.3"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, HasSubstr("4.500 s predicted before, its correction follows\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("set aside")));
}

TEST_F(ReportTest, SaysWhatIsMissing) {
  const RunOutcome no_time = Run({"--plan-id", "abc"});
  EXPECT_EQ(no_time.code, kUsage);
  EXPECT_THAT(no_time.err, HasSubstr("--seconds"));
  const RunOutcome no_job = Run({"--seconds", "5"});
  EXPECT_EQ(no_job.code, kUsage);
  EXPECT_THAT(no_job.err, HasSubstr("what ran is missing"));
  EXPECT_EQ(Run({"--seconds", "-5", "--plan-id", "a"}).code, kUsage);
  EXPECT_EQ(Run({"forget"}).code, kUsage);
  EXPECT_EQ(Run({"delete"}).code, kUsage);
}

TEST_F(ReportTest, ListsReportsAndFactors) {
  fake_.list_reports = [](const v1::ListReportsRequest& request,
                          v1::ListReportsResponse& response) {
    v1::StoredReport* stored = response.add_reports();
    stored->set_name(request.page_token().empty() ? "r1" : "r2");
    stored->mutable_report()->set_iteration_seconds(5.3);
    stored->mutable_report()->mutable_measured_at()->set_seconds(1'800'000'000);
    if (request.page_token().empty()) response.set_next_page_token("r1");
    return grpc::Status::OK;
  };
  const RunOutcome list = Run({"list"});
  ASSERT_EQ(list.code, kDone) << list.err;
  EXPECT_THAT(list.out, HasSubstr("r1"));
  EXPECT_THAT(list.out, HasSubstr("r2"));
  EXPECT_THAT(list.out, HasSubstr("2027-01-15"));

  fake_.corrections = [](const v1::ListCorrectionsRequest&, v1::ListCorrectionsResponse& response) {
    v1::AcceleratorCorrections* type = response.add_corrections();
    type->set_accelerator("H800-SXM");
    type->set_reports(3);
    for (const auto& [term, value] : {std::pair{"products", 1.25}, {"memory", 1.0}}) {
      v1::CorrectionFactor* factor = type->add_factors();
      factor->set_term(term);
      factor->set_factor(value);
      factor->set_error(0.05);
    }
    return grpc::Status::OK;
  };
  const RunOutcome factors = Run({"factors"});
  EXPECT_THAT(factors.out, HasSubstr("products"));
  EXPECT_THAT(factors.out, HasSubstr("1.250"));
  EXPECT_THAT(factors.out, Not(HasSubstr("memory")));

  std::string deleted;
  fake_.delete_report = [&](const v1::DeleteReportRequest& request, v1::DeleteReportResponse&) {
    deleted = request.name();
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"delete", "r1"}).code, kDone);
  EXPECT_EQ(deleted, "r1");
}

}  // namespace
}  // namespace hapmoe::client
