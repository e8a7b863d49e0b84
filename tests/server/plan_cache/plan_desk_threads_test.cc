// Callers, cancellations, deadlines and changes of profiles from many threads at once: every caller
// is answered once, and by the profiles of its time.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "tests/server/plan_cache/desk_fixture.h"

namespace hapmoe::server {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 4;
constexpr int kCalls = 150;  // Of each thread.

// Searches for a while, so that callers meet.
class BriefSolver : public PlanSolver {
 public:
  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor&, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const override {
    search::Outcome outcome;
    outcome.best = TrivialPlan(request);
    search::Progress told;
    told.improved = &*outcome.best;
    told.so_far = [&outcome] { return AsCutShort(outcome); };
    for (int i = 0; i < 10 && !interrupter.tripped(); ++i) {
      progress(told);
      std::this_thread::sleep_for(microseconds(300));
    }
    outcome.termination.limit = search::LimitOf(interrupter.cause());
    return outcome;
  }
};

v1::PlanRequest RequestOf(unsigned kind, const std::string& id) {
  v1::PlanRequest request = SmallPlanRequest();
  request.set_request_id(id);
  v1::Constraints& constraints = *request.mutable_problem()->mutable_constraints();
  constraints.set_memory_headroom_ratio(0.05 + 0.01 * (kind % 5));
  if (kind % 7 == 0) request.set_cache_policy(v1::CACHE_POLICY_BYPASS_LOOKUP);
  if (kind % 11 == 0) request.set_cache_policy(v1::CACHE_POLICY_DO_NOT_STORE);
  return request;
}

TEST(PlanDeskThreads, EveryCallerIsAnsweredOnce) {
  // Room for some of the answers.
  DeskFixture fixture({.most_bytes = 100'000, .threads = 2, .queue = 64},
                      std::make_unique<BriefSolver>());
  std::atomic<int> ok{0};
  std::atomic<int> in_time{0};
  std::atomic<int> cancelled{0};
  const auto call = [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    std::vector<TestCaller> callers(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      const unsigned dice = random();
      const std::string id = dice % 3 == 0 ? "" : std::to_string(dice % 40);
      const auto end =
          dice % 4 == 0 ? Clock::now() + microseconds(dice % 5000) : PlanDesk::TimePoint::max();
      TestCaller& caller = callers[static_cast<size_t>(i)];
      const PlanDesk::Ticket ticket = fixture.Ask(RequestOf(dice, id), caller, end);
      if (dice % 5 == 0) fixture.Cancel(caller, ticket);
      if (dice % 2 == 0) {
        EXPECT_TRUE(caller.AnsweredSoon());
      }
    }
    for (const TestCaller& caller : callers) {
      ASSERT_TRUE(caller.AnsweredSoon());
      EXPECT_EQ(caller.answers(), 1);
      const absl::Status& status = caller.status();
      if (status.ok()) {
        ++ok;
        EXPECT_FALSE(caller.answer().plan().plan_id().empty());
        continue;
      }
      const Reason reason = ReasonOf(status);
      in_time += reason == Reason::kDeadlinePassed ? 1 : 0;
      cancelled += reason == Reason::kCallCancelled ? 1 : 0;
      EXPECT_TRUE(reason == Reason::kDeadlinePassed || reason == Reason::kCallCancelled ||
                  reason == Reason::kQueueFull || reason == Reason::kRequestInvalid)
          << status;
    }
  };
  std::atomic<bool> done{false};
  std::thread putter([&] {
    v1::AcceleratorProfile profile = fixture.profiles().catalog()->Find("H800")->wire;
    for (int i = 0; !done; ++i) {
      profile.mutable_memory()->mutable_capacity_bytes()->set_value(80e9 - 1e9 * (i % 3));
      EXPECT_TRUE(fixture.profiles().Put(profile).ok());
      EXPECT_LE(fixture.desk().cache().bytes(), 100'000u);
      (void)fixture.desk().FindPlan("none");
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(call, i);
  for (std::thread& thread : threads) thread.join();
  done = true;
  putter.join();
  EXPECT_GT(ok, 0);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(fixture.desk().flights().waiting(), 0u);
  EXPECT_EQ(fixture.desk().flights().flying(), 0u);
  RecordProperty("ok", ok);
  RecordProperty("deadline", in_time);
}

TEST(PlanDeskThreads, NoOldPlanIsServedAfterAPut) {
  DeskFixture fixture({},
                      std::make_unique<FunctionSolver>([](const search::SearchRequest& request) {
                        search::Outcome outcome;
                        outcome.best = TrivialPlan(request);
                        return outcome;
                      }));
  std::atomic<int64_t> least{0};  // No answer may show less memory from now on.
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const int64_t before = least;
        const v1::PlanAnswer answer = fixture.Ask(RequestOf(1, "")).answer();
        EXPECT_GE(answer.plan().meshes(0).stages(0).memory().budget_bytes(), before);
      }
    });
  }
  v1::AcceleratorProfile profile = fixture.profiles().catalog()->Find("H800")->wire;
  for (int i = 0; i < 60; ++i) {
    const double bytes = 60e9 + 1e8 * i;
    profile.mutable_memory()->mutable_capacity_bytes()->set_value(bytes);
    ASSERT_TRUE(fixture.profiles().Put(profile).ok());
    least = i == 0 ? 0
                   : fixture.Ask(RequestOf(1, ""))
                         .answer()
                         .plan()
                         .meshes(0)
                         .stages(0)
                         .memory()
                         .budget_bytes();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hapmoe::server
