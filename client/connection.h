// A connection to the planner: one channel, all services, and the deadline of every call.
#ifndef HAPMOE_CLIENT_CONNECTION_H_
#define HAPMOE_CLIENT_CONNECTION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "hapmoe/v1/feedback.grpc.pb.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "hapmoe/v1/profiles.grpc.pb.h"

namespace hapmoe::client {

// Of channels: calls are repeated after UNAVAILABLE alone, which is known not to have done any
// work.
inline constexpr char kServiceConfig[] = R"({
  "methodConfig": [{
    "name": [{}],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 3,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
})";

// A call of one message for one, &v1::PlannerService::Stub::Plan for example.
template <typename Stub, typename Request, typename Response>
using UnaryMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// Thread-safe. Calls that fail with UNAVAILABLE are repeated, four attempts in all, by gRPC itself.
class Connection {
 public:
  // `server` is host:port or unix:PATH. `tls_name` is what its certificate says, where that is not
  // its address. Nothing is sent before the first call.
  Connection(std::string server, absl::Duration deadline,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials,
             const std::string& tls_name = "");

  const std::string& server() const { return server_; }

  // Makes one call, with its deadline.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(UnaryMethod<Stub, Request, Response> method, const Request& request,
                    Response& response) {
    grpc::ClientContext context;
    Prepare(context);
    return (*std::get<std::unique_ptr<Stub>>(stubs_).*method)(&context, request, &response);
  }

  // For calls of other kinds: the stub, and the deadline of a call, counted from now. Each call
  // needs a context of its own.
  v1::PlannerService::Stub& planner() {
    return *std::get<std::unique_ptr<v1::PlannerService::Stub>>(stubs_);
  }
  void Prepare(grpc::ClientContext& context) const;

 private:
  const std::string server_;
  const absl::Duration deadline_;
  std::tuple<std::unique_ptr<v1::PlannerService::Stub>, std::unique_ptr<v1::ProfilesService::Stub>,
             std::unique_ptr<v1::FeedbackService::Stub>>
      stubs_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CONNECTION_H_
