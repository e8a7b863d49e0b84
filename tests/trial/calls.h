// Calls that are begun without waiting, and what became of them.
#ifndef HAPMOE_TESTS_TRIAL_CALLS_H_
#define HAPMOE_TESTS_TRIAL_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "hapmoe/v1/feedback.grpc.pb.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "hapmoe/v1/profiles.grpc.pb.h"

namespace hapmoe::trial {

using Clock = std::chrono::steady_clock;

// One who calls, over a connection of his own.
struct Caller {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::PlannerService::Stub> planner;
  std::unique_ptr<v1::ProfilesService::Stub> profiles;
  std::unique_ptr<v1::FeedbackService::Stub> feedback;
};

// Connects anew by itself. `retries`: whether calls are repeated as the product's client does, when
// the server could not be reached.
Caller Connect(const std::string& address, bool retries = false);
// From an address of the loopback, 127.0.0.`host`, so that the server sees several callers; to a
// port of 127.0.0.1. The connection ends for good when it breaks. Its channel is null where there
// is no connection.
Caller ConnectFrom(int host, int port);

// How a call went.
struct Ended {
  grpc::Status status;
  std::chrono::nanoseconds took{0};
  // After its deadline; negative before.
  std::chrono::nanoseconds late{0};
};

// Counts calls under way. Thread safe.
class Calls {
 public:
  // A call under way, to be cancelled.
  using Handle = std::shared_ptr<grpc::ClientContext>;

  // Begins a call: `begin(context, request, response, callback)` hands it to gRPC. `done(ended,
  // response)` is called on a thread of gRPC's.
  template <typename Response, typename Request, typename Begin, typename Done>
  Handle Start(Request request, std::chrono::nanoseconds deadline, Begin begin, Done done) {
    struct State {
      Request request;
      Response response;
      std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
      Clock::time_point begun;
    };
    auto* const state = new State();
    state->request = std::move(request);
    const Handle handle = state->context;
    Began();
    state->context->set_deadline(std::chrono::system_clock::now() + deadline);
    state->begun = Clock::now();
    begin(state->context.get(), &state->request, &state->response,
          [this, state, deadline, done = std::move(done)](grpc::Status status) mutable {
            const std::chrono::nanoseconds took = Clock::now() - state->begun;
            done(Ended{std::move(status), took, took - deadline}, state->response);
            delete state;
            End();
          });
    return handle;
  }

  // For calls that are begun otherwise.
  void Began();
  void End();

  int64_t under_way() const;
  // Whether all calls have ended in time.
  bool Wait(std::chrono::nanoseconds timeout);

 private:
  mutable Mutex mutex_;
  CondVar idle_;
  int64_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads all of a stream of plans; `done(ended, messages)` as above. Cancelled after `most` messages
// where that is not negative.
Calls::Handle StartStream(
    Calls& calls, v1::PlannerService::Stub& planner, const v1::StreamPlanRequest& request,
    std::chrono::nanoseconds deadline, int most,
    std::function<void(const Ended& ended, int messages, bool answered)> done);

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_CALLS_H_
