// A server inside a test, on free ports of the loopback, and clients of it.
#ifndef HAPMOE_TESTS_SERVER_TESTING_TEST_SERVER_H_
#define HAPMOE_TESTS_SERVER_TESTING_TEST_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "hapmoe/v1/feedback.grpc.pb.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "hapmoe/v1/profiles.grpc.pb.h"
#include "server/server.h"

namespace hapmoe::server {

class TestServer {
 public:
  static ServerOptions Options();

  // Ends the test program if the server does not start.
  explicit TestServer(std::unique_ptr<PlanSolver> solver = std::make_unique<SearchSolver>(),
                      const ServerOptions& options = Options());

  Server& server() { return *server_; }
  v1::PlannerService::Stub& planner() { return *planner_; }
  v1::ProfilesService::Stub& profiles() { return *profiles_; }
  v1::FeedbackService::Stub& feedback() { return *feedback_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // What /metrics answers now.
  std::string Metrics() const;
  // The value of one line of it, "name{label=\"value\"}"; -1 if there is none.
  double Metric(const std::string& series) const;

 private:
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PlannerService::Stub> planner_;
  std::unique_ptr<v1::ProfilesService::Stub> profiles_;
  std::unique_ptr<v1::FeedbackService::Stub> feedback_;
};

// The ErrorInfo of a status; fails the test if there is not exactly one, of our domain.
google::rpc::ErrorInfo ErrorInfoOf(const grpc::Status& status);

// The details of a status of one type; empty if there is none.
template <typename Detail>
std::vector<Detail> DetailsOf(const grpc::Status& status) {
  google::rpc::Status wire;
  wire.ParseFromString(status.error_details());
  std::vector<Detail> found;
  for (const auto& any : wire.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) found.push_back(detail);
  }
  return found;
}

// Waits until `condition` holds; false after ten seconds, longer than any loaded machine needs.
bool Eventually(const std::function<bool()>& condition);

// The answer of an HTTP server to a GET, without headers; empty if it does not answer.
std::string HttpGet(int port, const std::string& path);

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_TEST_SERVER_H_
