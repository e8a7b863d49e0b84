// More costly calls than the server can search for, beside cheap ones that must not feel them.
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/rpc/error_details.pb.h"
#include "tests/bench/load/latencies.h"
#include "tests/server/testing/test_server.h"
#include "tests/trial/calls.h"
#include "tests/trial/requests.h"
#include "tests/trial/server_under_trial.h"
#include "tests/trial/trials.h"

namespace hapmoe::trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kCallers = 10;
constexpr int kCallsOfEach = 100;
constexpr milliseconds kShortest{500};
constexpr milliseconds kLongest{6000};
constexpr int kCheapPerSecond = 200;
// What searches may have together, and what the server may take beyond what it took before: that
// once more, for what the allocator keeps of it, for a queue of requests that were read and for
// answers.
constexpr int64_t kSearchBytes = int64_t{256} << 20;
constexpr int64_t kMostMoreBytes = 2 * kSearchBytes;

// What became of costly calls. Thread safe.
class Costly {
 public:
  void Ended(const trial::Ended& ended) {
    ++ended_;
    switch (ended.status.error_code()) {
      case grpc::OK:
        ++planned_;
        break;
      case grpc::DEADLINE_EXCEEDED:
        ++expired_;
        break;
      case grpc::RESOURCE_EXHAUSTED:
        ++shed_;
        if (server::DetailsOf<google::rpc::RetryInfo>(ended.status).size() != 1) ++no_retry_info_;
        shed_times_.Add(ended.took);
        return;
      default:
        ++other_;
        MutexLock lock(mutex_);
        other_text_ = ended.status.error_message();
        return;
    }
    MutexLock lock(mutex_);
    latest_ = std::max(latest_, ended.late);
  }

  void Judge(Verdict& verdict, int64_t calls) const {
    verdict.Tell(absl::StrFormat(
        "costly calls: %d planned, %d shed (p50 %.2f ms, p99 %.2f ms), %d at their deadline",
        planned_.load(), shed_.load(), shed_times_.QuantileSeconds(0.5) * 1e3,
        shed_times_.QuantileSeconds(0.99) * 1e3, expired_.load()));
    MutexLock lock(mutex_);
    verdict.RequireEqual(ended_, calls, "costly calls that were answered");
    verdict.RequireEqual(other_, 0, absl::StrCat("costly calls with another error ", other_text_));
    verdict.RequireEqual(no_retry_info_, 0, "shed without RetryInfo");
    verdict.Require(planned_ > 0, "some are planned");
    verdict.RequireWithin(std::chrono::duration<double>(latest_).count(), 0.02, 0.5,
                          "latest answer after its deadline, at the caller");
  }

 private:
  std::atomic<int64_t> ended_{0};
  std::atomic<int64_t> planned_{0};
  std::atomic<int64_t> shed_{0};
  std::atomic<int64_t> expired_{0};
  std::atomic<int64_t> other_{0};
  std::atomic<int64_t> no_retry_info_{0};
  bench::Latencies shed_times_;
  mutable Mutex mutex_;
  std::string other_text_ ABSL_GUARDED_BY(mutex_);
  std::chrono::nanoseconds latest_ ABSL_GUARDED_BY(mutex_) = std::chrono::hours(-1);
};

// A modest stream of calls that need no search.
class Cheap {
 public:
  explicit Cheap(const std::string& address) : caller_(Connect(address)) {
    grpc::ClientContext context;
    v1::PlanResponse response;
    caller_.planner->Plan(&context, SmallPlan(0), &response);  // From now on it is kept.
  }

  void Run(Clock::time_point end) {
    constexpr auto kGap = std::chrono::duration_cast<Clock::duration>(seconds(1)) / kCheapPerSecond;
    int number = 0;
    for (Clock::time_point next = Clock::now(); next < end; next += kGap) {
      std::this_thread::sleep_until(next);
      Begin(number++ % 3, next);
    }
    calls_.Wait(seconds(30));
  }

  void Tell(Verdict& verdict, const char* when) const {
    for (size_t i = 0; i < times_.size(); ++i) {
      verdict.Tell(
          absl::StrFormat("cheap calls %s, %-14s %5d, p50 %.2f ms, p99 %.2f ms, most %.2f", when,
                          kNames[i], times_[i].count(), times_[i].QuantileSeconds(0.5) * 1e3,
                          times_[i].QuantileSeconds(0.99) * 1e3, times_[i].MostSeconds() * 1e3));
    }
  }
  void Judge(Verdict& verdict) const {
    verdict.RequireEqual(failed_, 0, "cheap calls that failed");
    for (size_t i = 0; i < times_.size(); ++i) {
      verdict.RequireWithin(times_[i].QuantileSeconds(0.99), 0.01, 0.2,
                            absl::StrCat("p99 of cheap calls, ", kNames[i]));
    }
  }

 private:
  static constexpr std::array<const char*, 3> kNames = {"kept Plan", "Evaluate", "ListProfiles"};

  // Its time counts from when it was to begin.
  void Begin(int kind, Clock::time_point due) {
    const auto done = [this, kind, due](const Ended& ended, const auto&) {
      times_[static_cast<size_t>(kind)].Add(Clock::now() - due);
      if (!ended.status.ok()) ++failed_;
    };
    auto* const planner = caller_.planner->async();
    auto* const profiles = caller_.profiles->async();
    if (kind == 0) {
      calls_.Start<v1::PlanResponse>(
          SmallPlan(0), seconds(10), [planner](auto... call) { planner->Plan(call...); }, done);
    } else if (kind == 1) {
      calls_.Start<v1::EvaluateResponse>(
          SmallEvaluate(), seconds(10), [planner](auto... call) { planner->Evaluate(call...); },
          done);
    } else {
      calls_.Start<v1::ListProfilesResponse>(
          v1::ListProfilesRequest(), seconds(10),
          [profiles](auto... call) { profiles->ListProfiles(call...); }, done);
    }
  }

  const Caller caller_;
  std::array<bench::Latencies, 3> times_;
  std::atomic<int64_t> failed_{0};
  Calls calls_;
};

}  // namespace

void Overload(const TrialOptions& options, Verdict& verdict) {
  ServerUnderTrial server(options.program, {"--max_time_budget=60s",
                                            absl::StrCat("--max_search_memory=", kSearchBytes)});
  {
    Cheap alone(server.address());
    alone.Run(Clock::now() + seconds(2));
    alone.Tell(verdict, "alone");
  }
  std::vector<Caller> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(ConnectFrom(2 + i, server.port()));
    if (callers.back().channel == nullptr) return verdict.Require(false, "callers connect");
  }
  const bench::ProcessFigures before = server.Figures();
  std::mt19937 random(20261130);
  std::uniform_int_distribution<int64_t> deadline(kShortest.count(), kLongest.count());
  std::vector<v1::PlanRequest> plans;
  std::vector<v1::FrontierRequest> frontiers;
  for (int i = 0; i < kCallers * kCallsOfEach; ++i) {
    plans.push_back(LongPlan(i, seconds(60)));
    frontiers.push_back(LongFrontier(i, seconds(60)));
  }

  Costly costly;
  Cheap cheap(server.address());
  Calls calls;
  const Clock::time_point start = Clock::now();
  std::thread stream([&] { cheap.Run(start + kLongest + milliseconds(500)); });
  std::this_thread::sleep_until(start + milliseconds(200));
  for (int i = 0; i < kCallers * kCallsOfEach; ++i) {
    const auto done = [&costly](const Ended& ended, const auto&) { costly.Ended(ended); };
    auto* const planner = callers[static_cast<size_t>(i) % callers.size()].planner->async();
    const milliseconds time(deadline(random));
    const auto job = static_cast<size_t>(i);
    // A caller sends both kinds.
    if (i / kCallers % 2 == 0) {
      calls.Start<v1::PlanResponse>(
          std::move(plans[job]), time, [planner](auto... call) { planner->Plan(call...); }, done);
    } else {
      calls.Start<v1::FrontierResponse>(
          std::move(frontiers[job]), time, [planner](auto... call) { planner->Frontier(call...); },
          done);
    }
  }
  verdict.Tell(
      absl::StrFormat("%d costly calls begun within %.0f ms", kCallers * kCallsOfEach,
                      std::chrono::duration<double>(Clock::now() - start).count() * 1e3 - 200));
  stream.join();
  verdict.Require(calls.Wait(kLongest + seconds(10)), "every costly call is answered");
  costly.Judge(verdict, kCallers * kCallsOfEach);
  cheap.Tell(verdict, "meanwhile");
  cheap.Judge(verdict);
  verdict.Require(server.BecomesIdle(seconds(10)), "the server is idle afterwards");
  JudgeDeadlines(server.Metrics(), verdict);

  const bench::ProcessFigures after = server.Figures();
  verdict.RequireAtMost(
      static_cast<double>(after.peak_resident_bytes - before.resident_bytes) / (1 << 20),
      static_cast<double>(kMostMoreBytes) / (1 << 20), "more resident memory at its peak", "MiB");
  callers.clear();
  const bool closed =
      server::Eventually([&] { return server.Figures().descriptors <= before.descriptors; });
  verdict.Require(closed, absl::StrCat("descriptors are back at ", before.descriptors));
  server.program().Signal(SIGTERM);
  verdict.RequireEqual(server.program().Wait(), 0, "exit status");
}

}  // namespace hapmoe::trial
