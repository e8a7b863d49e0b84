#include "core/search/frontier.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace hapmoe::search {
namespace {

constexpr double kTightening = 0.9;  // Of the memory that the plan before took.

// Whether a search without a plan has shown that memory is short on every set of degrees. Other
// rules, those of divisibility above all, may let a smaller allocation pass.
bool MemoryBinds(const Outcome& outcome) {
  if (!outcome.infeasibility.has_value()) return false;
  const std::string& rule = outcome.infeasibility->binding_rule;
  return rule == "memory" || rule == "host_memory";
}

std::string WhyNoPlan(const Outcome& outcome) {
  if (outcome.infeasibility.has_value()) return outcome.infeasibility->summary;
  if (outcome.termination.limit == Limit::kMemory) {
    return "The memory ran out before a plan was found.";
  }
  return "No plan was found in time.";
}

const char* WhatRanOut(const Interrupter& interrupter) {
  return interrupter.cause() == Interrupter::Cause::kMemory ? "memory" : "time";
}

// The headroom under which the stage that takes most memory would have a tenth less than it took.
double TightenedHeadroom(const FrontierPoint& point) {
  const cost::MemoryBreakdown* most = nullptr;
  for (const cost::StagePrediction& stage : point.best().prediction.stages) {
    if (most == nullptr || stage.memory.peak_bytes() > most->peak_bytes()) most = &stage.memory;
  }
  const double share = most->peak_bytes() / most->budget_bytes;
  return 1 - (1 - point.memory_headroom_ratio) * share * kTightening;
}

// The order in which allocations are searched. Where large ones tell of those within them they come
// first; else the small ones, which take least time.
std::vector<size_t> SearchOrder(const std::vector<int64_t>& accelerators, bool largest_first) {
  std::vector<size_t> order(accelerators.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return largest_first ? accelerators[a] > accelerators[b] : accelerators[a] < accelerators[b];
  });
  return order;
}

// A point of each allocation with those of its further searches that are on the Pareto front.
std::vector<FrontierPoint> Gather(std::vector<FrontierPoint> first,
                                  std::vector<std::vector<FrontierPoint>> tightened) {
  std::vector<FrontierPoint> points;
  std::vector<bool> further;
  for (size_t i = 0; i < first.size(); ++i) {
    points.push_back(std::move(first[i]));
    further.push_back(false);
    for (FrontierPoint& point : tightened[i]) {
      points.push_back(std::move(point));
      further.push_back(true);
    }
  }
  MarkParetoFront(points);
  std::vector<FrontierPoint> kept;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!further[i] || points[i].on_pareto_front) kept.push_back(std::move(points[i]));
  }
  return kept;
}

}  // namespace

FrontierPoint AllocationSearches::Unsearched(const Allocation& allocation, std::string why) const {
  FrontierPoint point;
  point.allocation = allocation;
  point.accelerators = AcceleratorsOf(request_.problem.cluster, allocation);
  point.memory_headroom_ratio = request_.problem.memory_headroom_ratio;
  point.why = std::move(why);
  return point;
}

FrontierPoint AllocationSearches::CutOff(const Allocation& allocation) const {
  FrontierPoint point =
      Unsearched(allocation, absl::StrCat("The ", WhatRanOut(interrupter_),
                                          " ran out before this allocation was searched."));
  point.settled = false;
  return point;
}

absl::StatusOr<FrontierPoint> AllocationSearches::Search(const Allocation& allocation) {
  if (interrupter_.tripped()) return CutOff(allocation);
  if (LowerBoundSeconds(allocation) == std::numeric_limits<double>::infinity()) {
    return Unsearched(allocation, "Nothing fits: more nodes of the same pools lack memory too.");
  }
  HAPMOE_ASSIGN_OR_RETURN(FrontierPoint point, Solved(Unsearched(allocation, "")));
  Known known = {allocation, point.outcome->termination.lower_bound_seconds};
  if (!point.planned()) {
    // A diagnosis that was cut short proves nothing.
    const bool proven = MemoryBinds(*point.outcome) && point.settled;
    known.lower_bound_seconds = proven ? std::numeric_limits<double>::infinity() : 0;
  }
  known_.push_back(std::move(known));
  return point;
}

absl::StatusOr<FrontierPoint> AllocationSearches::SearchTightened(const Allocation& allocation,
                                                                  double memory_headroom_ratio) {
  FrontierPoint point = Unsearched(allocation, "");
  point.memory_headroom_ratio = memory_headroom_ratio;
  return Solved(std::move(point));
}

absl::StatusOr<FrontierPoint> AllocationSearches::Solved(FrontierPoint point) const {
  SearchRequest cut = Cut(request_, point.allocation);
  cut.problem.memory_headroom_ratio = point.memory_headroom_ratio;
  // Of a part of the cluster nobody asks what would help it.
  const cluster::Cluster& cluster = request_.problem.cluster;
  cut.seek_changes =
      request_.seek_changes && AcceleratorsOf(cluster, point.allocation) == cluster.accelerators();
  HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, solve_(cut));
  point.outcome = OnWholeCluster(point.allocation, std::move(outcome));
  if (!point.planned()) point.why = WhyNoPlan(*point.outcome);
  point.settled = !interrupter_.tripped();
  return point;
}

double AllocationSearches::LowerBoundSeconds(const Allocation& allocation) const {
  double bound = 0;
  for (const Known& known : known_) {
    if (known.allocation == allocation ||
        (request_.constraints.allow_idle_accelerators && allocation.Within(known.allocation))) {
      bound = std::max(bound, known.lower_bound_seconds);
    }
  }
  return bound;
}

absl::StatusOr<std::vector<FrontierPoint>> Frontier(
    const SearchRequest& request, const FrontierRequest& frontier, Solve solve,
    const Interrupter& interrupter, absl::FunctionRef<void(const FrontierProgress&)> progress) {
  AllocationSearches searches(request, solve, interrupter);
  const size_t count = frontier.allocations.size();
  std::vector<int64_t> accelerators;
  for (const Allocation& allocation : frontier.allocations) {
    accelerators.push_back(AcceleratorsOf(request.problem.cluster, allocation));
  }
  std::vector<std::optional<FrontierPoint>> first(count);
  std::vector<std::vector<FrontierPoint>> tightened(count);
  FrontierProgress told;
  told.most = static_cast<int64_t>(count) * (1 + frontier.memory_steps);
  told.so_far = [&] {
    std::vector<FrontierPoint> now;
    for (size_t i = 0; i < count; ++i) {
      now.push_back(first[i].has_value() ? *first[i] : searches.CutOff(frontier.allocations[i]));
    }
    return Gather(std::move(now), tightened);
  };
  for (const size_t i : SearchOrder(accelerators, request.constraints.allow_idle_accelerators)) {
    HAPMOE_ASSIGN_OR_RETURN(first[i], searches.Search(frontier.allocations[i]));
    ++told.done;
    progress(told);
  }
  // The first searches of all allocations before further ones of any: time may run out.
  for (size_t i = 0; i < count; ++i) {
    const FrontierPoint* last = &*first[i];
    tightened[i].reserve(static_cast<size_t>(frontier.memory_steps));
    for (int64_t step = 0; step < frontier.memory_steps; ++step) {
      if (!last->planned() || interrupter.tripped()) break;
      HAPMOE_ASSIGN_OR_RETURN(
          FrontierPoint next,
          searches.SearchTightened(frontier.allocations[i], TightenedHeadroom(*last)));
      if (!next.planned()) break;
      last = &tightened[i].emplace_back(std::move(next));
      ++told.done;
      progress(told);
    }
  }
  std::vector<FrontierPoint> all;
  all.reserve(first.size());
  for (std::optional<FrontierPoint>& point : first) all.push_back(*std::move(point));
  return Gather(std::move(all), std::move(tightened));
}

void MarkParetoFront(std::vector<FrontierPoint>& points) {
  using Figures = std::tuple<double, double, int64_t>;
  const auto figures = [](const FrontierPoint& point) {
    const Costed& best = point.best();
    return Figures(best.prediction.iteration_seconds, best.prediction.device_memory_bytes(),
                   best.plan.world_size());
  };
  const auto no_worse = [](const Figures& a, const Figures& b) {
    return std::get<0>(a) <= std::get<0>(b) && std::get<1>(a) <= std::get<1>(b) &&
           std::get<2>(a) <= std::get<2>(b);
  };
  for (size_t i = 0; i < points.size(); ++i) {
    points[i].on_pareto_front = points[i].planned();
    for (size_t k = 0; k < points.size() && points[i].on_pareto_front; ++k) {
      if (k == i || !points[k].planned()) continue;
      const Figures mine = figures(points[i]);
      const Figures theirs = figures(points[k]);
      if (no_worse(theirs, mine) && (theirs != mine || k < i)) points[i].on_pareto_front = false;
    }
  }
}

}  // namespace hapmoe::search
