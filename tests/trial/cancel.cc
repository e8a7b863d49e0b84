// How long a thread goes on searching after its call was cancelled.
#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/planning/planner.h"
#include "tests/bench/jobs.h"
#include "tests/server/testing/built_in.h"
#include "tests/trial/calls.h"
#include "tests/trial/requests.h"
#include "tests/trial/trials.h"

namespace hapmoe::trial {
namespace {

using server::Planner;
using std::chrono::milliseconds;
using std::chrono::seconds;
using InterrupterPtr = std::shared_ptr<Interrupter>;

constexpr milliseconds kMost{2000};  // Into a search.
// How often each is cancelled: as often as it could be searched for in this time, within bounds.
constexpr seconds kForEach{4};
constexpr int64_t kFewest = 5;
constexpr int64_t kMany = 40;

// The planner of a server with two threads that search, without what brings calls to it.
struct Searching {
  const std::unique_ptr<server::ProfileStore> profiles = server::BuiltInProfiles();
  const server::EngineCatalog engines = server::BuiltInEngines();
  const server::SchedulerCatalog schedulers = server::BuiltInSchedulers();
  const server::SearchSolver solver{};
  server::DeadlineTimer timer;
  server::ThreadPool pool{2, 8};
  const Planner planner{*profiles, engines,
                        solver,    pool,
                        timer,     {.max_time_budget = seconds(60), .schedulers = &schedulers}};
};

struct Question {
  std::string name;
  std::function<void(const Planner&, const InterrupterPtr&)> ask;
};

std::function<void(const Planner&, const InterrupterPtr&)> Plan(v1::PlanRequest request) {
  return [request = std::move(request)](const Planner& planner, const InterrupterPtr& interrupter) {
    (void)planner.Plan("", request.problem(), interrupter, nullptr);
  };
}

// Of Frontier and Explain.
template <typename Request>
std::function<void(const Planner&, const InterrupterPtr&)> Search(Request request) {
  return [request = std::move(request)](const Planner& planner, const InterrupterPtr& interrupter) {
    const auto prepared = planner.Prepare(request, planner.View());
    if (!prepared.ok()) return;
    (void)planner.Search(*prepared, /*budget=*/std::nullopt, interrupter, /*observer=*/nullptr);
  };
}

v1::PlanRequest PlanOf(const std::vector<std::string>& job,
                       const std::vector<bench::PoolSize>& pools) {
  v1::PlanRequest request;
  for (const std::string& argument : job) {
    request.mutable_problem()->mutable_job()->add_megatron_args(argument);
  }
  *request.mutable_problem()->mutable_cluster() = bench::ClusterOf(pools);
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_seconds(60);
  return request;
}

std::vector<Question> Questions() {
  const std::vector<bench::PoolSize> large = {{"H800", 128}, {"A100-SXM-80GB", 128}};
  v1::PlanRequest any_engine = PlanOf(bench::Mixtral8x7B(), {{"H800", 8}, {"910B", 8}});
  v1::PlanRequest idle = PlanOf(bench::DeepSeekV3(), large);
  idle.mutable_problem()->mutable_constraints()->set_allow_idle_accelerators(true);
  v1::PlanRequest fewest = LongPlan(0, seconds(60));
  fewest.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_FEWEST);
  fewest.mutable_problem()->mutable_objective()->set_deadline_seconds(60);
  v1::ExplainRequest explain;
  *explain.mutable_problem() = PlanOf(bench::DeepSeekV3Layout(), {{"H800", 128}}).problem();
  return {
      {"plan of 8 accelerators", Plan(SmallPlan(0))},
      {"plan of 512", Plan(PlanOf(bench::Mixtral8x7B(), {{"H800", 32}, {"A100-SXM-80GB", 32}}))},
      {"plan of 2,048", Plan(PlanOf(bench::DeepSeekV3(), large))},
      {"plan of 2,048, some idle", Plan(std::move(idle))},
      {"plan on any engine", Plan(std::move(any_engine))},
      {"plan that does not fit", Plan(PlanOf(bench::DeepSeekV3(), {{"A100-SXM-80GB", 5}}))},
      {"best price of 512", Plan(LongPlan(0, seconds(60)))},
      {"fewest of 512", Plan(std::move(fewest))},
      {"frontier", Search(LongFrontier(0, seconds(60)))},
      {"explanation", Search(std::move(explain))},
  };
}

// From the cancellation until no thread is at work; nothing where the search had ended by then.
struct Freed {
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds cpu{0};  // Of all threads of this process.
};

std::chrono::nanoseconds ProcessCpu() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class Asked {
 public:
  Asked(Searching& searching, const Question& question) : pool_(searching.pool) {
    const bool queued = pool_.Submit([&searching, &question, interrupter = interrupter_] {
      question.ask(searching.planner, interrupter);
    });
    if (!queued) std::abort();
    while (pool_.queued() > 0) std::this_thread::yield();
  }

  bool WaitUntil(Clock::time_point end) const {
    while (pool_.busy() > 0 && Clock::now() < end) Pause();
    return pool_.busy() == 0;
  }
  Freed Cancel() {
    const Clock::time_point start = Clock::now();
    const std::chrono::nanoseconds cpu = ProcessCpu();
    interrupter_->Trip(Interrupter::Cause::kCancelled);
    while (pool_.busy() > 0) Pause();
    return {Clock::now() - start, ProcessCpu() - cpu};
  }

 private:
  static void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

  const InterrupterPtr interrupter_ = std::make_shared<Interrupter>();
  server::ThreadPool& pool_;
};

}  // namespace

void Cancel(const TrialOptions&, Verdict& verdict) {
  Searching searching;
  std::mt19937 random(20261130);
  for (const Question& question : Questions()) {
    const Clock::time_point start = Clock::now();
    Asked whole(searching, question);
    const bool ended = whole.WaitUntil(start + kMost);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    if (!ended) whole.Cancel();
    std::uniform_int_distribution<int64_t> moment(0, took.count());
    std::vector<double> wall;
    std::vector<double> cpu;
    const int64_t cancels =
        std::clamp<int64_t>(kForEach / took, kFewest, kMany) * (verdict.strict() ? 5 : 1);
    for (int64_t i = 0; i < cancels; ++i) {
      const std::chrono::microseconds when(moment(random));
      const Clock::time_point begun = Clock::now();
      Asked asked(searching, question);
      if (asked.WaitUntil(begun + when)) continue;
      const Freed freed = asked.Cancel();
      wall.push_back(std::chrono::duration<double>(freed.wall).count());
      cpu.push_back(std::chrono::duration<double>(freed.cpu).count());
    }
    // The shortest may always end before their moment comes.
    verdict.Require(!wall.empty() || took < milliseconds(50),
                    absl::StrFormat("%s, %s %.0f ms: cancelled %d times", question.name,
                                    ended ? "of" : "more than",
                                    static_cast<double>(took.count()) / 1e3, wall.size()));
    if (wall.empty()) continue;
    std::sort(wall.begin(), wall.end());
    std::sort(cpu.begin(), cpu.end());
    verdict.Tell(
        absl::StrFormat("  freed after p50 %.2f ms, most %.2f ms; processor time most %.2f",
                        wall[wall.size() / 2] * 1e3, wall.back() * 1e3, cpu.back() * 1e3));
    // On a busy machine threads wait for a processor; what they did then counts.
    verdict.RequireWithin(verdict.strict() ? wall.back() : cpu.back(), 0.01, 0.1,
                          verdict.strict() ? "  the latest" : "  most processor time");
  }
}

}  // namespace hapmoe::trial
