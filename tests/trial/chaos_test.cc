// Connections that break, stall or vanish while the server searches.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/load/process_figures.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/test_server.h"
#include "tests/trial/calls.h"
#include "tests/trial/gate.h"
#include "tests/trial/requests.h"

namespace hapmoe::trial {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepsFreedMemory = true;
#elif defined(__has_feature)
constexpr bool kKeepsFreedMemory = __has_feature(address_sanitizer);
#else
constexpr bool kKeepsFreedMemory = false;
#endif

using server::Eventually;
using server::SlowSearch;
using server::TestServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kKeepalive{200};

// Finds a better plan all the time, until it is interrupted.
class EagerSolver : public server::PlanSolver {
 public:
  explicit EagerSolver(std::shared_ptr<SlowSearch> search) : search_(std::move(search)) {}

  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor&, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const override {
    ++search_->started;
    search::Outcome outcome;
    outcome.best = server::TrivialPlan(request);
    search::Progress told;
    told.improved = &*outcome.best;
    told.so_far = [&outcome] { return outcome; };
    while (!interrupter.tripped()) {
      progress(told);
      ++told.candidates_done;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    outcome.termination.limit = search::Limit::kTime;
    told_ = told.candidates_done;
    ++search_->ended;
    return outcome;
  }

  static int64_t told() { return told_; }

 private:
  const std::shared_ptr<SlowSearch> search_;
  static inline std::atomic<int64_t> told_{0};
};

server::ServerOptions QuickKeepalive() {
  server::ServerOptions options = TestServer::Options();
  options.keepalive_time = kKeepalive;
  options.keepalive_timeout = seconds(1);  // Longer than any loaded machine needs.
  return options;
}

v1::PlanRequest PlanOf(seconds budget) {
  v1::PlanRequest request = SmallPlan(0);
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_seconds(
      budget.count());
  return request;
}

// A server that searches for ever, and a client behind a gate.
class Chaos : public testing::Test {
 protected:
  // A call of Plan that searches by the time this returns.
  void BeginPlan(seconds deadline = seconds(60)) {
    auto* const planner = caller_.planner->async();
    calls_.Start<v1::PlanResponse>(
        PlanOf(seconds(20)), deadline, [planner](auto... call) { planner->Plan(call...); },
        [this](const Ended& ended, const v1::PlanResponse&) { status_ = ended.status; });
    ASSERT_TRUE(Eventually([this] { return search_->started == 1; }));
  }
  bool Idle() {
    return Eventually([this] {
      return search_->ended == search_->started &&
             server_.Metric("hapmoe_inflight_requests") == 0 &&
             server_.Metric("hapmoe_pool_busy_threads{pool=\"search\"}") == 0;
    });
  }

  const std::shared_ptr<SlowSearch> search_ = std::make_shared<SlowSearch>();
  TestServer server_{std::make_unique<server::SlowSolver>(search_, /*finds_plan=*/true),
                     QuickKeepalive()};
  Gate gate_{server_.server().port()};
  Caller caller_ = Connect(gate_.address());
  grpc::Status status_;
  Calls calls_;
};

TEST_F(Chaos, CutEndsTheSearch) {
  BeginPlan();
  gate_.Cut();
  EXPECT_TRUE(Idle());
  EXPECT_EQ(search_->seen_cancelled, 1);
  EXPECT_TRUE(calls_.Wait(seconds(10)));
  EXPECT_EQ(status_.error_code(), grpc::UNAVAILABLE);
}

TEST_F(Chaos, EndOfTheRequestsEndsTheSearch) {
  BeginPlan();
  gate_.EndRequests();
  EXPECT_TRUE(Idle());
  EXPECT_EQ(search_->seen_cancelled, 1);
  EXPECT_TRUE(calls_.Wait(seconds(10)));
}

TEST_F(Chaos, PeerThatVanishesEndsTheSearch) {
  BeginPlan();
  gate_.Vanish(true);
  EXPECT_TRUE(Idle());
  EXPECT_EQ(search_->seen_cancelled, 1);
  gate_.Cut();
  EXPECT_TRUE(calls_.Wait(seconds(10)));
}

// Pings get no data in return; they must not end because of that.
TEST_F(Chaos, PeerThatVanishesAfterManyPingsEndsTheSearchToo) {
  BeginPlan();
  std::this_thread::sleep_for(6 * kKeepalive);
  ASSERT_EQ(search_->ended, 0);
  gate_.Vanish(true);
  EXPECT_TRUE(Idle());
  EXPECT_EQ(search_->seen_cancelled, 1);
  gate_.Cut();
  EXPECT_TRUE(calls_.Wait(seconds(10)));
}

TEST_F(Chaos, ConnectionWithoutCallsOfAPeerThatVanishedIsClosed) {
  BeginPlan(seconds(1));
  EXPECT_TRUE(calls_.Wait(seconds(10)));
  std::this_thread::sleep_for(6 * kKeepalive);
  const int64_t before = bench::FiguresOf(0).descriptors;
  gate_.Vanish(true);
  EXPECT_TRUE(Eventually([&] { return bench::FiguresOf(0).descriptors < before; }));
}

TEST_F(Chaos, SlowNetworkChangesNothing) {
  gate_.Delay(milliseconds(20));
  BeginPlan(seconds(3));
  EXPECT_TRUE(calls_.Wait(seconds(10)));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_TRUE(Idle());
}

TEST_F(Chaos, NetworkThatComesBackIsUsedAgain) {
  BeginPlan();
  gate_.Refuse(true);
  gate_.Cut();
  EXPECT_TRUE(Idle());
  gate_.Refuse(false);
  EXPECT_TRUE(Eventually([this] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(5));
    v1::GetServerInfoResponse response;
    return caller_.planner->GetServerInfo(&context, {}, &response).ok();
  }));
}

TEST(SlowReader, CostsNoMoreMemoryThanOneMessageOfAKind) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<EagerSolver>(search));
  Gate gate(server.server().port());
  const Caller caller = Connect(gate.address());
  Calls calls;
  bool answered = false;
  StartStream(calls, *caller.planner, Streamed(PlanOf(seconds(2))), seconds(60), -1,
              [&answered](const Ended& ended, int, bool had_answer) {
                answered = ended.status.ok() && had_answer;
              });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  gate.StopAnswers(true);
  std::this_thread::sleep_for(milliseconds(500));  // Buffers on the way fill.
  const int64_t before = bench::FiguresOf(0).resident_bytes;
  EXPECT_TRUE(Eventually([&] { return search->ended == 1; }));  // It is not held up.
  const int64_t after = bench::FiguresOf(0).resident_bytes;
  EXPECT_GT(EagerSolver::told(), 500);
  // Each plan that was told has kilobytes. AddressSanitizer keeps what is freed for a while.
  if (!kKeepsFreedMemory) {
    EXPECT_LT(after - before, 4 << 20) << EagerSolver::told() << " plans were told";
  }
  gate.StopAnswers(false);
  EXPECT_TRUE(calls.Wait(seconds(10)));
  EXPECT_TRUE(answered);  // What waited is sent, and the answer after it.
}

TEST(SlowReader, ThatNeverReadsIsLeftAtItsDeadline) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<EagerSolver>(search));
  Gate gate(server.server().port());
  const Caller caller = Connect(gate.address());
  Calls calls;
  StartStream(calls, *caller.planner, Streamed(PlanOf(seconds(1))), seconds(2), -1,
              [](const Ended&, int, bool) {});
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  gate.StopAnswers(true);
  EXPECT_TRUE(calls.Wait(seconds(20)));
  EXPECT_TRUE(Eventually([&] { return server.Metric("hapmoe_inflight_requests") == 0; }));
  EXPECT_EQ(search->ended, 1);
}

}  // namespace
}  // namespace hapmoe::trial
