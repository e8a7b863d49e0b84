// Reports over the loopback, and the metrics that they leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

double Evaluated(TestServer& server) {
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  EXPECT_TRUE(server.planner().Evaluate(&context, SmallEvaluateRequest(), &response).ok());
  return response.prediction().iteration_seconds();
}

grpc::Status Report(TestServer& server, double seconds, v1::ReportIterationResponse* response) {
  grpc::ClientContext context;
  v1::ReportIterationRequest request;
  *request.mutable_report()->mutable_job() = SmallEvaluateRequest().job();
  *request.mutable_report()->mutable_cluster() = SmallEvaluateRequest().cluster();
  request.mutable_report()->set_iteration_seconds(seconds);
  return server.feedback().ReportIteration(&context, request, response);
}

TEST(Feedback, ReportListCorrectionsDelete) {
  TestServer server;
  const double before = Evaluated(server);
  v1::ReportIterationResponse reported;
  ASSERT_TRUE(Report(server, 1.2 * before, &reported).ok());
  EXPECT_GT(Evaluated(server), 1.1 * before);

  v1::ListReportsResponse list;
  grpc::ClientContext listing;
  ASSERT_TRUE(server.feedback().ListReports(&listing, {}, &list).ok());
  ASSERT_EQ(list.reports_size(), 1);
  EXPECT_EQ(list.reports(0).name(), reported.stored().name());

  v1::ListCorrectionsResponse corrections;
  grpc::ClientContext asking;
  ASSERT_TRUE(server.feedback().ListCorrections(&asking, {}, &corrections).ok());
  ASSERT_EQ(corrections.corrections_size(), 1);
  EXPECT_EQ(corrections.corrections(0).accelerator(), "H800-SXM");
  double most = 0;
  for (const v1::CorrectionFactor& factor : corrections.corrections(0).factors()) {
    most = std::max(most, factor.factor());
    EXPECT_GT(factor.error(), 0);
  }
  EXPECT_GT(most, 1.1);

  EXPECT_EQ(server.Metric("hapmoe_reports{accelerator=\"H800-SXM\"}"), 1);
  EXPECT_EQ(server.Metric("hapmoe_reports{accelerator=\"H200-SXM\"}"), 0);
  EXPECT_EQ(server.Metric("hapmoe_report_time_ratio_count{accelerator=\"H800-SXM\","
                          "prediction=\"profiles\"}"),
            1);
  EXPECT_NEAR(server.Metric("hapmoe_report_time_ratio_sum{accelerator=\"H800-SXM\","
                            "prediction=\"corrected\"}"),
              1.2, 1e-9);
  EXPECT_GT(server.Metric("hapmoe_correction_factor{accelerator=\"H800-SXM\",term=\"products\"}"),
            1);
  EXPECT_EQ(server.Metric("hapmoe_correction_factor{accelerator=\"H200-SXM\",term=\"products\"}"),
            1);

  v1::DeleteReportRequest remove;
  remove.set_name(reported.stored().name());
  v1::DeleteReportResponse removed;
  grpc::ClientContext removing;
  ASSERT_TRUE(server.feedback().DeleteReport(&removing, remove, &removed).ok());
  EXPECT_EQ(Evaluated(server), before);
  grpc::ClientContext again;
  const grpc::Status gone = server.feedback().DeleteReport(&again, remove, &removed);
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ErrorInfoOf(gone).reason(), "REPORT_NOT_FOUND");
}

TEST(Feedback, FaultsAreToldByField) {
  TestServer server;
  v1::ReportIterationResponse response;
  const grpc::Status status = Report(server, 1e6 * Evaluated(server), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].field_violations(0).field(), "report.iteration_seconds");
}

TEST(Feedback, SurvivesARestartOfTheServer) {
  TemporaryDirectory directory;
  ServerOptions options = TestServer::Options();
  options.state_dir = directory.path();
  double corrected = 0;
  {
    TestServer server(std::make_unique<SearchSolver>(), options);
    v1::ReportIterationResponse reported;
    ASSERT_TRUE(Report(server, 1.2 * Evaluated(server), &reported).ok());
    corrected = Evaluated(server);
  }
  TestServer server(std::make_unique<SearchSolver>(), options);
  EXPECT_NEAR(Evaluated(server) / corrected, 1, 1e-6);  // The report is a moment older.
}

}  // namespace
}  // namespace hapmoe::server
