// Calls that are refused because the queue is full, while searches run.
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

constexpr size_t kThreads = 2;  // That search.
constexpr int kCallers = 12;    // Each may fill half of what the others left.
constexpr int kCallsOfEach = 40;
constexpr seconds kFor{4};
constexpr int kRefusedPerSecond = 200;
constexpr std::array<const char*, 4> kMethods = {"Plan", "StreamPlan", "Frontier", "Explain"};

// Fills the queue for as long as it lives.
class Flood {
 public:
  explicit Flood(const ServerUnderTrial& server) {
    for (int i = 0; i < kCallers; ++i) {
      callers_.push_back(ConnectFrom(2 + i, server.port()));
      if (callers_.back().channel == nullptr) return;
      auto* const planner = callers_.back().planner->async();
      for (int call = 0; call < kCallsOfEach; ++call) {
        handles_.push_back(calls_.Start<v1::FrontierResponse>(
            LongFrontier(i * kCallsOfEach + call, seconds(60)), seconds(60),
            [planner](auto... arguments) { planner->Frontier(arguments...); },
            [](const Ended&, const auto&) {}));
        // Else a thread that comes late to them leaves a place that nobody fills.
        if (handles_.size() == kThreads) WaitUntilSearching(server);
      }
    }
  }
  ~Flood() {
    for (const Calls::Handle& handle : handles_) handle->TryCancel();
    calls_.Wait(seconds(30));
  }

 private:
  static void WaitUntilSearching(const ServerUnderTrial& server) {
    server::Eventually([&] {
      return server.Metrics().Value("hapmoe_pool_busy_threads{pool=\"search\"}") == kThreads;
    });
  }

  std::vector<Caller> callers_;
  std::vector<Calls::Handle> handles_;
  Calls calls_;
};

// Calls that are to be refused. Thread safe.
struct Refused {
  std::array<bench::Latencies, kMethods.size()> times;
  std::atomic<int64_t> otherwise{0};

  void Ended(size_t method, const trial::Ended& ended) {
    times[method].Add(ended.took);
    if (ended.status.error_code() != grpc::RESOURCE_EXHAUSTED) ++otherwise;
  }
};

void Begin(Calls& calls, const Caller& caller, size_t method, int64_t number, Refused& refused) {
  auto* const planner = caller.planner->async();
  const auto done = [method, &refused](const Ended& ended, const auto&) {
    refused.Ended(method, ended);
  };
  // Of another number than any of the flood.
  number += kCallers * kCallsOfEach;
  if (method == 0) {
    calls.Start<v1::PlanResponse>(
        LongPlan(number, seconds(60)), seconds(60),
        [planner](auto... arguments) { planner->Plan(arguments...); }, done);
  } else if (method == 1) {
    StartStream(calls, *caller.planner, Streamed(LongPlan(number, seconds(60))), seconds(60), -1,
                [&refused](const Ended& ended, int, bool) { refused.Ended(1, ended); });
  } else if (method == 2) {
    calls.Start<v1::FrontierResponse>(
        LongFrontier(number, seconds(60)), seconds(60),
        [planner](auto... arguments) { planner->Frontier(arguments...); }, done);
  } else {
    calls.Start<v1::ExplainResponse>(
        SmallExplain(number), seconds(60),
        [planner](auto... arguments) { planner->Explain(arguments...); }, done);
  }
}

void JudgeAtServer(const MetricsNow& before, const MetricsNow& after, Verdict& verdict) {
  constexpr char kDuration[] = "hapmoe_request_duration_seconds";
  for (const char* method : kMethods) {
    const std::string labels = absl::StrCat("method=\"", method, "\",outcome=\"shed\"");
    const double calls = after.Count(kDuration, labels) - before.Count(kDuration, labels);
    const auto share = [&](const std::string& bound) {
      return (after.AtMost(kDuration, labels, bound) - before.AtMost(kDuration, labels, bound)) /
             std::max(calls, 1.0);
    };
    std::string text;
    for (const char* bound : {"0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01"}) {
      absl::StrAppend(&text, absl::StrFormat(", <= %s s: %.1f %%", bound, 100 * share(bound)));
    }
    verdict.Tell(absl::StrFormat("at the server, %-10s %5.0f shed%s", method, calls, text));
    const double least = verdict.strict() ? 0.99 : 0.5;
    verdict.Require(share("0.001") >= least,
                    absl::StrFormat("%.0f %% of them within 1 ms", least * 100));
  }
}

}  // namespace

void Shed(const TrialOptions& options, Verdict& verdict) {
  // No search ends before its time, for want of memory for example, and makes room in the queue.
  ServerUnderTrial server(options.program,
                          {absl::StrCat("--search_threads=", kThreads), "--max_time_budget=60s",
                           "--max_search_memory=8589934592"});
  const Caller caller = Connect(server.address());
  Calls calls;
  Refused refused;
  {
    const Flood flood(server);
    std::this_thread::sleep_for(milliseconds(500));
    const MetricsNow before = server.Metrics();
    verdict.RequireEqual(static_cast<int64_t>(before.Value("hapmoe_queue_depth{pool=\"search\"}")),
                         64, "searches that wait");
    constexpr auto kGap =
        std::chrono::duration_cast<Clock::duration>(seconds(1)) / kRefusedPerSecond;
    int64_t number = 0;
    const Clock::time_point end = Clock::now() + kFor;
    for (Clock::time_point next = Clock::now(); next < end; next += kGap, ++number) {
      std::this_thread::sleep_until(next);
      Begin(calls, caller, static_cast<size_t>(number) % kMethods.size(), number, refused);
    }
    verdict.Require(calls.Wait(seconds(10)), "every call is answered");
    JudgeAtServer(before, server.Metrics(), verdict);
  }
  calls.Wait(seconds(60));  // What was queued after all.
  for (size_t method = 0; method < kMethods.size(); ++method) {
    const bench::Latencies& times = refused.times[method];
    verdict.Tell(absl::StrFormat("at the caller, %-10s %5d, p50 %.2f ms, p99 %.2f ms",
                                 kMethods[method], times.count(), times.QuantileSeconds(0.5) * 1e3,
                                 times.QuantileSeconds(0.99) * 1e3));
  }
  verdict.RequireEqual(refused.otherwise, 0, "calls that were not refused");
  verdict.Require(server.BecomesIdle(seconds(10)), "the server is idle afterwards");
}

}  // namespace hapmoe::trial
