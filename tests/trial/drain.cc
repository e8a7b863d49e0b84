// The end of a server that has thirty searches of a minute to go.
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/server/testing/test_server.h"
#include "tests/trial/calls.h"
#include "tests/trial/requests.h"
#include "tests/trial/server_under_trial.h"
#include "tests/trial/trials.h"

namespace hapmoe::trial {
namespace {

using std::chrono::seconds;

constexpr int kSearches = 30;
constexpr seconds kGrace{1};

struct Answers {
  std::atomic<int64_t> planned{0};
  std::atomic<int64_t> refused{0};
  std::atomic<int64_t> otherwise{0};

  void Ended(const grpc::Status& status) {
    if (status.ok()) {
      ++planned;
    } else if (status.error_code() == grpc::UNAVAILABLE &&
               server::ErrorInfoOf(status).reason() == "DRAINING") {
      ++refused;
    } else {
      ++otherwise;
    }
  }
};

}  // namespace

void Drain(const TrialOptions& options, Verdict& verdict) {
  ServerUnderTrial server(options.program,
                          {absl::StrCat("--drain_grace=", kGrace.count(), "s"),
                           "--max_time_budget=100s", "--queue_size=128", "--search_threads=2"});
  const Caller caller = Connect(server.address());
  auto* const planner = caller.planner->async();
  Answers answers;
  Calls calls;
  for (int i = 0; i < kSearches; ++i) {
    const auto done = [&answers](const Ended& ended, const auto&) { answers.Ended(ended.status); };
    if (i % 3 == 0) {
      StartStream(calls, *caller.planner, Streamed(LongPlan(i, seconds(90))), seconds(100), -1,
                  [&answers](const Ended& ended, int, bool) { answers.Ended(ended.status); });
    } else if (i % 3 == 1) {
      calls.Start<v1::PlanResponse>(
          LongPlan(i, seconds(90)), seconds(100),
          [planner](auto... arguments) { planner->Plan(arguments...); }, done);
    } else {
      calls.Start<v1::FrontierResponse>(
          LongFrontier(i, seconds(90)), seconds(100),
          [planner](auto... arguments) { planner->Frontier(arguments...); }, done);
    }
  }
  const bool busy = server::Eventually([&] {
    const MetricsNow now = server.Metrics();
    return now.Value("hapmoe_inflight_requests") == kSearches &&
           now.Value("hapmoe_queue_depth{pool=\"search\"}") == kSearches - 2;
  });
  verdict.Require(busy, absl::StrCat(kSearches, " searches, two of which run"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const Clock::time_point start = Clock::now();
  server.program().Signal(SIGTERM);
  const int status = server.program().Wait();
  const std::chrono::duration<double> took = Clock::now() - start;
  verdict.RequireEqual(status, 0, "exit status");
  verdict.Require(took >= kGrace, "it took its grace");
  verdict.RequireWithin(std::chrono::duration<double>(took - kGrace).count(), 0.2, 2.5,
                        "beyond its grace");
  verdict.Require(calls.Wait(seconds(5)), "every call is answered");
  verdict.Tell(absl::StrFormat("%d planned, %d told that the server drains, %d otherwise",
                               answers.planned.load(), answers.refused.load(),
                               answers.otherwise.load()));
  verdict.RequireEqual(answers.planned + answers.refused, kSearches, "answered by the server");
  verdict.Require(absl::StrContains(server.program().Log(), "\"all_answered\":true"),
                  "the log says so");
}

}  // namespace hapmoe::trial
