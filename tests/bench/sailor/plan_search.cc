#include "tests/bench/sailor/plan_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "tests/bench/sailor/pipelines.h"
#include "tests/bench/sailor/suffix_program.h"

namespace hapmoe::bench::sailor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Suffixes extended for each number of layers by the quick search that comes before the exact one.
constexpr size_t kQuickWidth = 24;

struct Candidate {
  std::unique_ptr<Pipelines> pipelines;
  double least_seconds = 0;
};

std::vector<Candidate> Candidates(const Task& task) {
  std::set<int> micro_batches;
  for (const AcceleratorType& type : task.profile->types) {
    for (const auto& [key, times] : type.times) micro_batches.insert(key.first);
  }
  const int64_t most = *std::max_element(task.accelerators.begin(), task.accelerators.end());
  std::vector<Candidate> candidates;
  for (int64_t replicas = 1; replicas <= most; ++replicas) {
    for (const int micro_batch : micro_batches) {
      if (task.global_batch % (replicas * micro_batch) != 0) continue;
      Candidate candidate;
      candidate.pipelines = std::make_unique<Pipelines>(task, replicas, micro_batch);
      candidate.least_seconds = candidate.pipelines->LeastSeconds(kInfinity);
      if (candidate.least_seconds < kInfinity) candidates.push_back(std::move(candidate));
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.least_seconds < b.least_seconds; });
  return candidates;
}

}  // namespace

Answer FindPlan(const Task& task) {
  Answer answer;
  answer.seconds = kInfinity;
  const std::vector<Candidate> candidates = Candidates(task);
  answer.candidates = static_cast<int64_t>(candidates.size());
  // Quickly first: the exact search has the less to do the better a plan it must beat.
  for (const bool exact : {false, true}) {
    for (const Candidate& candidate : candidates) {
      const Pipelines& pipelines = *candidate.pipelines;
      if (candidate.least_seconds >= answer.seconds) break;
      if (pipelines.LeastSeconds(answer.seconds) >= answer.seconds) continue;
      search::SuffixProgram<Pipelines> program(pipelines);
      const auto result =
          exact ? program.Solve(answer.seconds) : program.Solve(answer.seconds, kQuickWidth);
      answer.labels += result.labels;
      if (exact) ++answer.searched;
      if (!result.found) continue;
      answer.seconds = result.cost;
      SailorPlan plan;
      plan.replicas = pipelines.replicas();
      plan.micro_batch = pipelines.micro_batch();
      for (size_t i = 0; i < result.stages.size(); ++i) {
        const int last =
            i + 1 < result.stages.size() ? result.stages[i + 1].first : pipelines.layers();
        plan.stages.push_back(pipelines.StageOf(result.stages[i], last));
      }
      answer.plan = std::move(plan);
    }
  }
  return answer;
}

}  // namespace hapmoe::bench::sailor
