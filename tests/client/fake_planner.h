// A planner in the test's own process: every call is recorded and answered by a function that the
// test sets.
#ifndef HAPMOE_TESTS_CLIENT_FAKE_PLANNER_H_
#define HAPMOE_TESTS_CLIENT_FAKE_PLANNER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client/commands.h"
#include "hapmoe/v1/feedback.grpc.pb.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "hapmoe/v1/profiles.grpc.pb.h"

namespace hapmoe::client {

// Handlers are set before the first call. A call without a handler fails with UNIMPLEMENTED.
class FakePlanner final {
 public:
  FakePlanner();
  ~FakePlanner();

  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }

  template <typename Request, typename Response>
  using Handler = std::function<grpc::Status(const Request&, Response&)>;

  Handler<v1::PlanRequest, v1::PlanResponse> plan;
  std::function<grpc::Status(const v1::StreamPlanRequest&,
                             const std::function<void(const v1::StreamPlanResponse&)>& write)>
      stream_plan;
  Handler<v1::EvaluateRequest, v1::EvaluateResponse> evaluate;
  Handler<v1::FrontierRequest, v1::FrontierResponse> frontier;
  Handler<v1::ExplainRequest, v1::ExplainResponse> explain;
  Handler<v1::GetServerInfoRequest, v1::GetServerInfoResponse> info;
  Handler<v1::PutProfileRequest, v1::PutProfileResponse> put;
  Handler<v1::GetProfileRequest, v1::GetProfileResponse> get;
  Handler<v1::ListProfilesRequest, v1::ListProfilesResponse> list;
  Handler<v1::DeleteProfileRequest, v1::DeleteProfileResponse> remove;
  Handler<v1::ReportIterationRequest, v1::ReportIterationResponse> report;
  Handler<v1::ListReportsRequest, v1::ListReportsResponse> list_reports;
  Handler<v1::DeleteReportRequest, v1::DeleteReportResponse> delete_report;
  Handler<v1::ListCorrectionsRequest, v1::ListCorrectionsResponse> corrections;

 private:
  class Planner;
  class Profiles;
  class Feedback;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Profiles> profiles_;
  std::unique_ptr<Feedback> feedback_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// What a run of hapmoe left.
struct RunOutcome {
  ExitCode code;
  std::string out;
  std::string err;
};

// Runs hapmoe in this process. `server` becomes HAPMOE_SERVER, where it is given.
RunOutcome RunWords(const std::vector<std::string>& words, const std::string& input = "",
                    const std::optional<std::string>& server = std::nullopt);

}  // namespace hapmoe::client

#endif  // HAPMOE_TESTS_CLIENT_FAKE_PLANNER_H_
