// A connection to the planner: one channel, all services, and the deadline of every call.
#ifndef HAPMOE_CLIENT_CONNECTION_H_
#define HAPMOE_CLIENT_CONNECTION_H_

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "hapmoe/v1/feedback.grpc.pb.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "hapmoe/v1/profiles.grpc.pb.h"

namespace hapmoe::client {

// Thread-safe. Calls that fail with UNAVAILABLE are repeated, four attempts in all, by gRPC itself.
class Connection {
 public:
  // `server` is host:port or unix:PATH. Nothing is sent before the first call.
  Connection(std::string server, absl::Duration deadline);

  const std::string& server() const { return server_; }
  v1::PlannerService::Stub& planner() { return *planner_; }
  v1::ProfilesService::Stub& profiles() { return *profiles_; }
  v1::FeedbackService::Stub& feedback() { return *feedback_; }

  // Gives a call its deadline, counted from now. Each call needs a context of its own.
  void Prepare(grpc::ClientContext& context) const;

 private:
  const std::string server_;
  const absl::Duration deadline_;
  std::unique_ptr<v1::PlannerService::Stub> planner_;
  std::unique_ptr<v1::ProfilesService::Stub> profiles_;
  std::unique_ptr<v1::FeedbackService::Stub> feedback_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CONNECTION_H_
