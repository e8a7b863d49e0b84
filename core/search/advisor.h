// Changes of a request that nothing fits after which something does.
#ifndef HAPMOE_CORE_SEARCH_ADVISOR_H_
#define HAPMOE_CORE_SEARCH_ADVISOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/interrupter.h"
#include "core/search/fitting.h"
#include "core/search/infeasibility.h"
#include "core/search/search.h"

namespace hapmoe::search {

// Every answer was checked, by memory and the engine's rules, to be enough and to be no larger than
// it has to be. What is under way when the interrupter trips is left out.
class Advisor {
 public:
  // `fitting` must be of `request`; its optimizer is the request's again when a call returns.
  Advisor(const SearchRequest& request, Fitting& fitting, const Interrupter& interrupter)
      : request_(request),
        fitting_(fitting),
        interrupter_(interrupter),
        optimizer_(request.problem.training.optimizer) {}

  // The changes that are enough alone, what costs least first.
  std::vector<Suggestion> Alone();
  // Changes that are enough together, none of which can be left out.
  std::vector<Suggestion> Together();

 private:
  using Kind = Suggestion::Kind;

  std::vector<int64_t> SmallerMicroBatches() const;

  // Whether anything fits after these changes.
  bool Feasible(const std::vector<Suggestion>& changes);
  // Fitting with the recomputation and the optimizer of a request.
  Fitting& FittingOf(const SearchRequest& request);

  // Changes without a size, or with the largest effect they can have; and what an optimizer needs.
  std::vector<Suggestion> Relaxations() const;
  std::optional<Suggestion> NearestDegree(const std::string& name);
  // The least amount from `fails` + 1 to `fits` with which `change` is enough beside the others.
  Suggestion Least(Suggestion change, int64_t fails, const std::vector<Suggestion>& others);
  // The fewest nodes to add to one pool, if any number within reach is enough beside the others.
  std::optional<Suggestion> FewestNodes(const std::string& pool,
                                        const std::vector<Suggestion>& others);
  std::vector<Suggestion> Checked(std::vector<Suggestion> suggestions);

  const SearchRequest& request_;
  Fitting& fitting_;
  const Interrupter& interrupter_;
  std::unique_ptr<Fitting> free_;  // With the planner's choice of recomputation.
  model::Optimizer optimizer_;     // That both were last asked with.
};

// Makes the changes of a suggestion to a request.
void Apply(const Suggestion& suggestion, SearchRequest& request);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_ADVISOR_H_
