#include "tests/client/fake_planner.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace hapmoe::client {
namespace {

template <typename Handler, typename Request, typename Response>
grpc::Status Answer(const Handler& handler, const Request& request, Response& response) {
  if (!handler) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not set in this test");
  return handler(request, response);
}

}  // namespace

class FakePlanner::Planner final : public v1::PlannerService::Service {
 public:
  explicit Planner(FakePlanner& fake) : fake_(fake) {}
  grpc::Status Plan(grpc::ServerContext*, const v1::PlanRequest* request,
                    v1::PlanResponse* response) override {
    return Answer(fake_.plan, *request, *response);
  }
  grpc::Status StreamPlan(grpc::ServerContext*, const v1::StreamPlanRequest* request,
                          grpc::ServerWriter<v1::StreamPlanResponse>* writer) override {
    if (!fake_.stream_plan) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not set");
    return fake_.stream_plan(*request,
                             [writer](const v1::StreamPlanResponse& e) { writer->Write(e); });
  }
  grpc::Status Evaluate(grpc::ServerContext*, const v1::EvaluateRequest* request,
                        v1::EvaluateResponse* response) override {
    return Answer(fake_.evaluate, *request, *response);
  }
  grpc::Status Frontier(grpc::ServerContext*, const v1::FrontierRequest* request,
                        v1::FrontierResponse* response) override {
    return Answer(fake_.frontier, *request, *response);
  }
  grpc::Status Explain(grpc::ServerContext*, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override {
    return Answer(fake_.explain, *request, *response);
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override {
    return Answer(fake_.info, *request, *response);
  }

 private:
  FakePlanner& fake_;
};

class FakePlanner::Profiles final : public v1::ProfilesService::Service {
 public:
  explicit Profiles(FakePlanner& fake) : fake_(fake) {}
  grpc::Status PutProfile(grpc::ServerContext*, const v1::PutProfileRequest* request,
                          v1::PutProfileResponse* response) override {
    return Answer(fake_.put, *request, *response);
  }
  grpc::Status GetProfile(grpc::ServerContext*, const v1::GetProfileRequest* request,
                          v1::GetProfileResponse* response) override {
    return Answer(fake_.get, *request, *response);
  }
  grpc::Status ListProfiles(grpc::ServerContext*, const v1::ListProfilesRequest* request,
                            v1::ListProfilesResponse* response) override {
    return Answer(fake_.list, *request, *response);
  }
  grpc::Status DeleteProfile(grpc::ServerContext*, const v1::DeleteProfileRequest* request,
                             v1::DeleteProfileResponse* response) override {
    return Answer(fake_.remove, *request, *response);
  }

 private:
  FakePlanner& fake_;
};

class FakePlanner::Feedback final : public v1::FeedbackService::Service {
 public:
  explicit Feedback(FakePlanner& fake) : fake_(fake) {}
  grpc::Status ReportIteration(grpc::ServerContext*, const v1::ReportIterationRequest* request,
                               v1::ReportIterationResponse* response) override {
    return Answer(fake_.report, *request, *response);
  }
  grpc::Status ListReports(grpc::ServerContext*, const v1::ListReportsRequest* request,
                           v1::ListReportsResponse* response) override {
    return Answer(fake_.list_reports, *request, *response);
  }
  grpc::Status DeleteReport(grpc::ServerContext*, const v1::DeleteReportRequest* request,
                            v1::DeleteReportResponse* response) override {
    return Answer(fake_.delete_report, *request, *response);
  }
  grpc::Status ListCorrections(grpc::ServerContext*, const v1::ListCorrectionsRequest* request,
                               v1::ListCorrectionsResponse* response) override {
    return Answer(fake_.corrections, *request, *response);
  }

 private:
  FakePlanner& fake_;
};

FakePlanner::FakePlanner()
    : planner_(std::make_unique<Planner>(*this)),
      profiles_(std::make_unique<Profiles>(*this)),
      feedback_(std::make_unique<Feedback>(*this)) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(planner_.get());
  builder.RegisterService(profiles_.get());
  builder.RegisterService(feedback_.get());
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakePlanner::~FakePlanner() { server_->Shutdown(std::chrono::system_clock::now()); }

RunOutcome RunWords(const std::vector<std::string>& words, const std::string& input,
                    const std::optional<std::string>& server) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const Console console{in, out, err, /*err_is_terminal=*/false,
                        [&server](const char* name) -> std::optional<std::string> {
                          if (std::string(name) == "HAPMOE_SERVER") return server;
                          return std::nullopt;
                        }};
  const ExitCode code = RunHapmoe(words, console);
  return {code, out.str(), err.str()};
}

}  // namespace hapmoe::client
