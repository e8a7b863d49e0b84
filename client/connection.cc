#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <utility>

namespace hapmoe::client {
namespace {

// A plan for a large cluster names every node twice, in the plan and in its launchers.
constexpr int kMaxAnswerBytes = 64 << 20;

}  // namespace

Connection::Connection(std::string server, absl::Duration deadline,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                       const std::string& tls_name)
    : server_(std::move(server)), deadline_(deadline) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // The channel must try to connect again as often as the calls are repeated.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A planner is a neighbour; a proxy for the web does not lead to it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!tls_name.empty()) arguments.SetSslTargetNameOverride(tls_name);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(server_, credentials, arguments);
  stubs_ = {v1::PlannerService::NewStub(channel), v1::ProfilesService::NewStub(channel),
            v1::FeedbackService::NewStub(channel)};
}

void Connection::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(deadline_));
}

}  // namespace hapmoe::client
