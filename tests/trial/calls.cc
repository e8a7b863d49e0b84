#include "tests/trial/calls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/connection.h"

namespace hapmoe::trial {
namespace {

Caller CallerOver(std::shared_ptr<grpc::Channel> channel) {
  Caller caller;
  caller.channel = std::move(channel);
  if (caller.channel == nullptr) return caller;
  caller.planner = v1::PlannerService::NewStub(caller.channel);
  caller.profiles = v1::ProfilesService::NewStub(caller.channel);
  caller.feedback = v1::FeedbackService::NewStub(caller.channel);
  return caller;
}

sockaddr_in Loopback(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

// Owns itself: it ends after gRPC's last reaction.
class StreamReader : public grpc::ClientReadReactor<v1::StreamPlanResponse> {
 public:
  using Done = std::function<void(const Ended&, int, bool)>;

  StreamReader(Calls& calls, v1::StreamPlanRequest request, std::chrono::nanoseconds deadline,
               int most, Done done)
      : calls_(calls),
        request_(std::move(request)),
        deadline_(deadline),
        most_(most),
        done_(std::move(done)) {}

  // This may be gone when it returns.
  Calls::Handle Begin(v1::PlannerService::Stub& planner) {
    Calls::Handle handle = context_;
    calls_.Began();
    context_->set_deadline(std::chrono::system_clock::now() + deadline_);
    planner.async()->StreamPlan(context_.get(), &request_, this);
    StartRead(&message_);
    StartCall();
    return handle;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++messages_;
    answered_ = answered_ || message_.has_answer();
    if (messages_ == most_) context_->TryCancel();
    StartRead(&message_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::chrono::nanoseconds took = Clock::now() - begun_;
    done_(Ended{status, took, took - deadline_}, messages_, answered_);
    Calls& calls = calls_;
    delete this;
    calls.End();
  }

 private:
  Calls& calls_;
  const v1::StreamPlanRequest request_;
  const std::chrono::nanoseconds deadline_;
  const int most_;
  const Done done_;
  const Calls::Handle context_ = std::make_shared<grpc::ClientContext>();
  const Clock::time_point begun_ = Clock::now();
  v1::StreamPlanResponse message_;
  int messages_ = 0;
  bool answered_ = false;
};

}  // namespace

Caller Connect(const std::string& address, bool retries) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  if (retries) arguments.SetServiceConfigJSON(client::kServiceConfig);
  return CallerOver(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

Caller ConnectFrom(int host, int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = Loopback(absl::StrCat("127.0.0.", host), 0);
  const sockaddr_in to = Loopback("127.0.0.1", port);
  if (bind(connection, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) != 0 ||
      connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    close(connection);
    return {};
  }
  const int at_once = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  fcntl(connection, F_SETFL, fcntl(connection, F_GETFL) | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  return CallerOver(
      grpc::CreateCustomInsecureChannelFromFd(absl::StrCat("caller", host), connection, arguments));
}

void Calls::Began() {
  MutexLock lock(mutex_);
  ++under_way_;
}

void Calls::End() {
  MutexLock lock(mutex_);
  if (--under_way_ == 0) idle_.NotifyAll();
}

int64_t Calls::under_way() const {
  MutexLock lock(mutex_);
  return under_way_;
}

bool Calls::Wait(std::chrono::nanoseconds timeout) {
  const auto end = Clock::now() + timeout;
  MutexLock lock(mutex_);
  while (under_way_ > 0) {
    if (Clock::now() >= end) return false;
    idle_.WaitUntil(mutex_, end);
  }
  return true;
}

Calls::Handle StartStream(
    Calls& calls, v1::PlannerService::Stub& planner, const v1::StreamPlanRequest& request,
    std::chrono::nanoseconds deadline, int most,
    std::function<void(const Ended& ended, int messages, bool answered)> done) {
  auto* const reader = new StreamReader(calls, request, deadline, most, std::move(done));
  return reader->Begin(planner);
}

}  // namespace hapmoe::trial
