// The search of a problem that may leave the engine open.
#ifndef HAPMOE_SERVER_PLANNING_ENGINE_SEARCH_H_
#define HAPMOE_SERVER_PLANNING_ENGINE_SEARCH_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/search/search.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/problem_reader.h"
#include "server/planning/search_run.h"

namespace hapmoe::server {

// Searches for one engine, or for every engine of a problem that can run it: each distinct space of
// plans once. The outcome then is that of the engine that is taken: among those that run their best
// plan as they are published, or among all where none does, the fastest; of equals the first in
// plan::Engines(). It is the optimum only if every space was settled, and its lower bound is the
// least of all.
class EngineSearch {
 public:
  // Both must outlive this object.
  EngineSearch(const ReadProblem& read, SearchRun& run) : read_(read), run_(run) {}

  // As SearchRun::Search. Plans that `progress` is told are those of the space that is searched.
  absl::StatusOr<search::Outcome> Search(const search::SearchRequest& request,
                                         absl::FunctionRef<void(const search::Progress&)> progress);

  // How the engines did in the outcome made last, of a search or of Progress::so_far; the one that
  // is taken first. Empty unless any may run the plan.
  const std::vector<v1::EngineComparison>& comparisons() const { return comparisons_; }

 private:
  struct Space;

  absl::Status SearchSpaces(const search::SearchRequest& request, bool seek_changes,
                            absl::FunctionRef<void(const search::Progress&)> progress,
                            std::vector<Space>& spaces);
  // `unsearched`: why a space without an outcome has none.
  search::Outcome Combine(const std::vector<Space>& spaces, search::Limit unsearched);

  const ReadProblem& read_;
  SearchRun& run_;
  std::vector<v1::EngineComparison> comparisons_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_ENGINE_SEARCH_H_
