// A desk for tests, over a solver that a test steers.
#ifndef HAPMOE_TESTS_SERVER_PLAN_CACHE_DESK_FIXTURE_H_
#define HAPMOE_TESTS_SERVER_PLAN_CACHE_DESK_FIXTURE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/cost/evaluate.h"
#include "server/plan_cache/plan_desk.h"
#include "tests/server/testing/built_in.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {

// Waits until `condition` holds; false after ten seconds, longer than any loaded machine needs.
inline bool Soon(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// What a test sees and steers of a GateSolver. Thread safe.
struct Gate {
  std::atomic<bool> open{true};
  std::atomic<bool> tells{true};  // Whether searches tell what they have.
  std::atomic<bool> fits{true};   // Otherwise searches find that nothing does.
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> cut_short{0};
};

// What a search with this in hand ends with where its time is over.
inline search::Outcome AsCutShort(search::Outcome outcome) {
  outcome.termination.limit = search::Limit::kTime;
  return outcome;
}

// Answers with TrivialPlan as the optimum once the gate is open, or as an incumbent when it is
// interrupted before.
class GateSolver : public PlanSolver {
 public:
  explicit GateSolver(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor&, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const override {
    ++gate_->started;
    search::Outcome outcome;
    outcome.best = TrivialPlan(request);
    search::Progress told;
    told.improved = &*outcome.best;
    told.so_far = [&outcome] { return AsCutShort(outcome); };
    while (!gate_->open && !interrupter.tripped()) {
      if (gate_->tells) progress(told);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Interrupter::Cause cause = interrupter.cause();
    outcome.termination.limit = search::LimitOf(cause);
    if (cause == Interrupter::Cause::kNone) {
      outcome.termination.reason = search::Reason::kOptimal;
      outcome.termination.lower_bound_seconds = outcome.best->prediction.iteration_seconds;
      if (!gate_->fits) {
        outcome.best.reset();
        outcome.infeasibility = {"Stage 0 is short of 1000 bytes.", "memory", 0, 1000, "Use more."};
      }
    }
    gate_->cancelled += cause == Interrupter::Cause::kCancelled ? 1 : 0;
    gate_->cut_short += cause == Interrupter::Cause::kTime ? 1 : 0;
    ++gate_->ended;
    return outcome;
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// Counts what it is told. Thread safe.
class CountingListener : public PlanDesk::Listener {
 public:
  void OnStart(std::chrono::nanoseconds) override { ++started; }
  void OnSearched(const absl::StatusOr<v1::PlanAnswer>&) override { ++searched; }
  void OnLookup(Lookup lookup) override { ++lookups[static_cast<size_t>(lookup)]; }
  int Of(Lookup lookup) const { return lookups[static_cast<size_t>(lookup)]; }

  std::atomic<int> started{0};
  std::atomic<int> searched{0};
  std::array<std::atomic<int>, 4> lookups = {};
};

// A caller, and its answer when that came. Thread safe.
class TestCaller {
 public:
  PlanDesk::Caller Make(PlanDesk::TimePoint end = PlanDesk::TimePoint::max()) {
    PlanDesk::Caller caller;
    caller.end = end;
    caller.interrupter = state_->interrupter;
    caller.answer = [state = state_](PlanReply reply) {
      if (state->answers++ == 0) state->reply = std::move(reply);
      state->answered.store(true, std::memory_order_release);
    };
    return caller;
  }
  bool answered() const { return state_->answered.load(std::memory_order_acquire); }
  bool AnsweredSoon() const {
    return Soon([this] { return answered(); });
  }
  int answers() const { return state_->answers; }
  const PlanReply& reply() const { return state_->reply; }
  const absl::Status& status() const { return reply().answer->status; }
  template <typename Response>
  Response response() const {
    Response response;
    response.ParseFromString(reply().answer->wire);
    return response;
  }
  v1::PlanAnswer answer() const { return response<v1::PlanResponse>().answer(); }
  Interrupter& interrupter() { return *state_->interrupter; }

 private:
  struct State {
    std::shared_ptr<Interrupter> interrupter = std::make_shared<Interrupter>();
    std::atomic<int> answers{0};
    std::atomic<bool> answered{false};
    PlanReply reply;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct DeskOptions {
  size_t most_bytes = size_t{1} << 20;
  int threads = 2;
  size_t queue = 8;
  std::chrono::nanoseconds max_time_budget = std::chrono::seconds(30);
  std::chrono::nanoseconds most_age = std::chrono::seconds(30);
  std::chrono::nanoseconds request_id_window = std::chrono::minutes(10);
};

class DeskFixture {
 public:
  explicit DeskFixture(const DeskOptions& options = {},
                       std::unique_ptr<PlanSolver> solver = nullptr)
      : profiles_(BuiltInProfiles()),
        engines_(BuiltInEngines()),
        schedulers_(BuiltInSchedulers()),
        solver_(solver != nullptr ? std::move(solver) : std::make_unique<GateSolver>(gate_)),
        pool_(options.threads, options.queue),
        light_pool_(2, 1024),
        planner_(*profiles_, engines_, *solver_, pool_, timer_,
                 {.max_time_budget = options.max_time_budget, .schedulers = &schedulers_}),
        desk_(std::in_place, planner_, pool_, light_pool_, timer_,
              PlanDesk::Options{.most_bytes = options.most_bytes,
                                .planner_version = "1",
                                .request_id_window = options.request_id_window,
                                .flights = {.most_age = options.most_age}},
              &listener_) {}

  // As DeskCall asks: from memory, or for a search. Returns the ticket of the latter.
  template <typename Request>
  PlanDesk::Ticket Ask(const Request& request, TestCaller& caller,
                       PlanDesk::TimePoint end = PlanDesk::TimePoint::max()) {
    const PlanDesk::Ticket ticket = desk_->NewTicket();
    const std::string bytes = request.SerializeAsString();
    PlanWire wire;
    ReadPlanWire(bytes, wire);
    if (std::optional<PlanReply> reply = desk_->FromMemory(KindOf(request), wire)) {
      caller.Make().answer(*std::move(reply));
    } else {
      desk_->Ask(ticket, request, wire.asked, caller.Make(end));
    }
    return ticket;
  }
  template <typename Request>
  TestCaller Ask(const Request& request) {
    TestCaller caller;
    Ask(request, caller);
    caller.AnsweredSoon();
    return caller;
  }
  void Cancel(TestCaller& caller, PlanDesk::Ticket ticket) {
    caller.interrupter().Trip(Interrupter::Cause::kCancelled);
    desk_->Cancel(ticket);
  }

  Gate& gate() { return *gate_; }
  PlanDesk& desk() { return *desk_; }
  void EndDesk() { desk_.reset(); }
  ProfileStore& profiles() { return *profiles_; }
  CountingListener& listener() { return listener_; }

 private:
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  CountingListener listener_;
  const std::unique_ptr<ProfileStore> profiles_;
  const EngineCatalog engines_;
  const SchedulerCatalog schedulers_;
  const std::unique_ptr<PlanSolver> solver_;
  DeadlineTimer timer_;
  ThreadPool pool_;
  ThreadPool light_pool_;
  Planner planner_;
  std::optional<PlanDesk> desk_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_PLAN_CACHE_DESK_FIXTURE_H_
