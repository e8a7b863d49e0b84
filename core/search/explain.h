// Why one plan is faster than another, in numbers.
#ifndef HAPMOE_CORE_SEARCH_EXPLAIN_H_
#define HAPMOE_CORE_SEARCH_EXPLAIN_H_

#include <string>
#include <vector>

#include "core/cost/problem.h"
#include "core/plan/plan.h"
#include "core/search/search.h"

namespace hapmoe::search {

// One part of the iteration time, on the busiest stage of each plan.
struct TermDifference {
  const char* term = "";  // "bubble"
  double best_seconds = 0;
  double given_seconds = 0;
};

// What sets the best plan apart from a given layout.
struct Explanation {
  // Every part of the time; the parts of each plan add up to its iteration time.
  std::vector<TermDifference> terms;
  // Times and what makes them up, degrees, layers, recomputation, the slowest stages, memory of the
  // fullest stages; each a sentence with its numbers. Figures that are equal are told once.
  std::vector<std::string> sentences;
};

// Compares the best plan of a job with a layout of the same job, both on the cluster of `problem`.
// The layout may be faster, and need not fit: the sentences say so. Pure.
Explanation Explain(const cost::Problem& problem, const Costed& best, const Costed& given);

// A short phrase of what tells one plan from another: "tp 4 instead of 8, 5 stages instead of 4".
// Names degrees first, then the batch and the pools, then layers and recomputation where nothing
// else differs; "the same layout" where nothing does.
std::string KindOf(const cost::Problem& problem, const plan::Plan& plan, const plan::Plan& other);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_EXPLAIN_H_
