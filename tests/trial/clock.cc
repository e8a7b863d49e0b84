// A server whose time of day is set while it searches.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/trial/calls.h"
#include "tests/trial/requests.h"
#include "tests/trial/server_under_trial.h"
#include "tests/trial/trials.h"

namespace hapmoe::trial {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds kDeadline{3};

// The file that tells a server how far its time of day is off.
class Offset {
 public:
  Offset() { Set(nanoseconds(0)); }
  void Set(nanoseconds offset) const {
    const int64_t value = offset.count();
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)!pwrite(file, &value, sizeof(value), 0);
    close(file);
  }
  const std::string& path() const { return path_; }

 private:
  const server::TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/offset";
};

}  // namespace

void ClockJump(const TrialOptions& options, Verdict& verdict) {
  const std::filesystem::path shim =
      std::filesystem::path(options.program).replace_filename("libclock_jump.so");
  const Offset offset;
  setenv("LD_PRELOAD", shim.c_str(), 1);
  setenv("HAPMOE_CLOCK_OFFSET", offset.path().c_str(), 1);
  ServerUnderTrial server(options.program, {"--max_time_budget=60s"});
  unsetenv("LD_PRELOAD");
  const Caller caller = Connect(server.address());
  auto* const planner = caller.planner->async();
  int64_t number = 0;
  for (const int hours : {1, -1, 24 * 365, 0}) {
    std::array<std::atomic<int64_t>, 2> milliseconds_taken = {};
    // With a plan, or in time without: on a busy machine there may be none yet.
    std::atomic<int64_t> answered{0};
    const auto in_time = [](const grpc::Status& status) {
      return status.ok() || status.error_code() == grpc::DEADLINE_EXCEEDED;
    };
    Calls calls;
    calls.Start<v1::FrontierResponse>(
        LongFrontier(++number, seconds(60)), kDeadline,
        [planner](auto... call) { planner->Frontier(call...); },
        [&](const Ended& ended, const auto&) {
          milliseconds_taken[0] = ended.took / milliseconds(1);
          if (in_time(ended.status)) ++answered;
        });
    calls.Start<v1::PlanResponse>(
        LongPlan(++number, seconds(60)), kDeadline,
        [planner](auto... call) { planner->Plan(call...); },
        [&](const Ended& ended, const auto&) {
          milliseconds_taken[1] = ended.took / milliseconds(1);
          if (in_time(ended.status)) ++answered;
        });
    std::this_thread::sleep_for(seconds(1));
    offset.Set(std::chrono::hours(hours));
    verdict.Require(calls.Wait(kDeadline + seconds(5)), "both calls are answered");
    verdict.RequireEqual(answered, 2,
                         absl::StrFormat("by the server, after the clock went %+d hours", hours));
    for (const auto& taken : milliseconds_taken) {
      verdict.Require(
          taken >= 2000 && taken <= 3100,
          absl::StrFormat("after %d ms, shortly before a deadline of 3 s", taken.load()));
    }
  }
  JudgeDeadlines(server.Metrics(), verdict);
  verdict.Require(server.BecomesIdle(seconds(10)), "the server is idle afterwards");
  server.program().Signal(SIGTERM);
  verdict.RequireEqual(server.program().Wait(), 0, "exit status");
}

}  // namespace hapmoe::trial
