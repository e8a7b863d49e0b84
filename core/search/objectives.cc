#include "core/search/objectives.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Kind = Objective::Kind;

class Chooser {
 public:
  Chooser(const SearchRequest& request, const Objective& objective,
          const std::vector<Allocation>& allocations, Solve solve, const Interrupter& interrupter)
      : cluster_(request.problem.cluster),
        objective_(objective),
        allocations_(allocations),
        interrupter_(interrupter),
        tokens_(static_cast<double>(request.problem.training.global_batch *
                                    request.problem.model.seq_length)),
        largest_first_(request.constraints.allow_idle_accelerators),
        searches_(request, solve, interrupter) {}

  absl::StatusOr<Choice> Run(absl::FunctionRef<void(const ChoiceProgress&)> progress) {
    choice_.points.resize(allocations_.size());
    int64_t done = 0;
    for (const size_t i : Order()) {
      const std::string beaten = WhyBeaten(i);
      if (beaten.empty()) {
        HAPMOE_ASSIGN_OR_RETURN(choice_.points[i], searches_.Search(allocations_[i]));
        if (choice_.points[i].outcome.has_value()) ++searched_;
      } else {
        choice_.points[i] = searches_.Unsearched(allocations_[i], beaten);
      }
      if (Beats(i)) choice_.winner = i;
      progress({++done, static_cast<int64_t>(allocations_.size()), [this] { return SoFar(); }});
    }
    choice_.proven = Proven();
    if (choice_.winner.has_value()) {
      choice_.why = Why(choice_.proven, interrupter_.tripped());
    } else if (!interrupter_.tripped()) {
      choice_.infeasibility = WhyNone();
    }
    return std::move(choice_);
  }

 private:
  Choice SoFar() const {
    Choice choice = choice_;
    for (size_t i = 0; i < choice.points.size(); ++i) {
      const bool settled = !choice.points[i].allocation.nodes.empty();
      if (!settled) choice.points[i] = searches_.CutOff(allocations_[i]);
    }
    choice.proven = Proven();
    if (choice.winner.has_value()) choice.why = Why(choice.proven, /*out_of_time=*/true);
    return choice;
  }

  // Fewest accelerators first. The largest goes before all where it bounds the others.
  std::vector<size_t> Order() const {
    std::vector<size_t> order(allocations_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [this](size_t a, size_t b) { return AcceleratorsAt(a) < AcceleratorsAt(b); });
    if (largest_first_ && !order.empty()) {
      std::rotate(order.begin(), order.end() - 1, order.end());
    }
    return order;
  }

  int64_t AcceleratorsAt(size_t i) const { return AcceleratorsOf(cluster_, allocations_[i]); }

  // The longest iteration that meets the limits.
  double LimitSeconds() const {
    double limit = kInfinity;
    if (objective_.deadline_seconds.has_value()) limit = *objective_.deadline_seconds;
    if (objective_.tokens_per_second.has_value()) {
      limit = std::min(limit, tokens_ / *objective_.tokens_per_second);
    }
    return limit;
  }

  double TokensPerPriceAt(size_t i, double seconds) const {
    return TokensPerPrice(cluster_, allocations_[i], tokens_ / seconds);
  }

  double SecondsOf(size_t i) const { return choice_.points[i].best().prediction.iteration_seconds; }

  bool Meets(size_t i) const {
    return choice_.points[i].planned() && SecondsOf(i) <= LimitSeconds();
  }

  // Whether an allocation that takes `seconds` at least could be better than the winner.
  bool CouldBeat(size_t i, double seconds) const {
    if (seconds > LimitSeconds()) return false;
    if (!choice_.winner.has_value()) return true;
    const size_t winner = *choice_.winner;
    if (objective_.kind == Kind::kFewest) return AcceleratorsAt(i) <= AcceleratorsAt(winner);
    return TokensPerPriceAt(i, seconds) >= TokensPerPriceAt(winner, SecondsOf(winner));
  }

  // Why an allocation need not be searched; empty where it must be. Where nothing fits the searches
  // say so themselves.
  std::string WhyBeaten(size_t i) const {
    const double bound = searches_.LowerBoundSeconds(allocations_[i]);
    if (bound == kInfinity) return "";
    if (bound > LimitSeconds()) {
      return absl::StrFormat("No plan on it takes less than %.4g s, more than the limit of %.4g s.",
                             bound, LimitSeconds());
    }
    if (CouldBeat(i, bound > 0 ? bound : 1e-300)) return "";
    return objective_.kind == Kind::kFewest ? "Fewer accelerators meet the limit."
                                            : "No plan on it trains as many tokens for its price.";
  }

  bool Beats(size_t i) const {
    if (!Meets(i)) return false;
    if (!choice_.winner.has_value()) return true;
    const size_t winner = *choice_.winner;
    if (objective_.kind == Kind::kPrice) {
      const double mine = TokensPerPriceAt(i, SecondsOf(i));
      const double best = TokensPerPriceAt(winner, SecondsOf(winner));
      if (mine != best) return mine > best;
    }
    if (AcceleratorsAt(i) != AcceleratorsAt(winner)) {
      return AcceleratorsAt(i) < AcceleratorsAt(winner);
    }
    if (SecondsOf(i) != SecondsOf(winner)) return SecondsOf(i) < SecondsOf(winner);
    return i < winner;
  }

  // Whether nothing that an allocation may still give would make it a better choice.
  bool Settled(size_t i) const {
    if (i == *choice_.winner) return true;
    const FrontierPoint& point = choice_.points[i];
    if (objective_.kind == Kind::kFewest && AcceleratorsAt(i) >= AcceleratorsAt(*choice_.winner)) {
      return true;
    }
    if (point.outcome.has_value() && point.outcome->infeasibility.has_value()) {
      return point.settled;
    }
    const double bound = searches_.LowerBoundSeconds(allocations_[i]);
    if (bound == 0) return false;
    if (bound > LimitSeconds()) return true;
    return objective_.kind == Kind::kPrice &&
           TokensPerPriceAt(i, bound) <=
               TokensPerPriceAt(*choice_.winner, SecondsOf(*choice_.winner));
  }

  bool Proven() const {
    if (!choice_.winner.has_value()) return false;
    for (size_t i = 0; i < allocations_.size(); ++i) {
      if (!Settled(i)) return false;
    }
    return true;
  }

  std::string LimitText() const {
    std::vector<std::string> limits;
    if (objective_.deadline_seconds.has_value()) {
      limits.push_back(absl::StrFormat("%.4g s an iteration", *objective_.deadline_seconds));
    }
    if (objective_.tokens_per_second.has_value()) {
      limits.push_back(absl::StrFormat("%.0f tokens/s", *objective_.tokens_per_second));
    }
    return absl::StrJoin(limits, " and ");
  }

  // "16 accelerators (h800 2 nodes)".
  std::string Name(size_t i) const {
    return absl::StrCat(AcceleratorsAt(i),
                        AcceleratorsAt(i) == 1 ? " accelerator" : " accelerators", " (",
                        AllocationText(cluster_, allocations_[i]), ")");
  }

  // Whole ones.
  int64_t TokensPerSecond(size_t i) const {
    return static_cast<int64_t>(std::floor(tokens_ / SecondsOf(i)));
  }

  std::string Figures(size_t i) const {
    return absl::StrFormat("%.4g s an iteration, %d tokens/s", SecondsOf(i), TokensPerSecond(i));
  }

  // The best plan that is not the winner's, among those that `wanted` lets through.
  template <typename Wanted, typename Better>
  std::optional<size_t> RunnerUp(Wanted wanted, Better better) const {
    std::optional<size_t> found;
    for (size_t i = 0; i < choice_.points.size(); ++i) {
      if (i == choice_.winner || !choice_.points[i].planned() || !wanted(i)) continue;
      if (!found.has_value() || better(i, *found)) found = i;
    }
    return found;
  }

  std::string Why(bool proven, bool out_of_time) const {
    const size_t winner = *choice_.winner;
    std::string why;
    if (objective_.kind == Kind::kFewest) {
      why = absl::StrCat(Name(winner), AcceleratorsAt(winner) == 1 ? " is" : " are",
                         " the fewest found to meet ", LimitText(), ": ", Figures(winner), ".");
      const auto next =
          RunnerUp([&](size_t i) { return AcceleratorsAt(i) < AcceleratorsAt(winner); },
                   [&](size_t a, size_t b) { return SecondsOf(a) < SecondsOf(b); });
      absl::StrAppend(&why, next.has_value() ? absl::StrCat(" The best of fewer, ", Name(*next),
                                                            ", gives ", Figures(*next), ".")
                                             : " Fewer were found to give no plan.");
    } else {
      why = absl::StrCat(
          PriceText(winner), ", the most found",
          LimitText().empty() ? "" : absl::StrCat(" among those that meet ", LimitText()), ".");
      const auto next =
          RunnerUp([&](size_t i) { return Meets(i); },
                   [&](size_t a, size_t b) {
                     return TokensPerPriceAt(a, SecondsOf(a)) > TokensPerPriceAt(b, SecondsOf(b));
                   });
      if (next.has_value()) absl::StrAppend(&why, " Next: ", PriceText(*next), ".");
    }
    absl::StrAppend(&why, " Of ", allocations_.size(), " allocations ", searched_,
                    " were searched; ",
                    proven        ? "no other can be a better choice."
                    : out_of_time ? "the time ran out."
                                  : "the bounds leave room for a better choice.");
    return why;
  }

  std::string PriceText(size_t i) const {
    return absl::StrFormat("%s: %.4g tokens for one unit of price, %s at %.4g an hour", Name(i),
                           TokensPerPriceAt(i, SecondsOf(i)), Figures(i),
                           PricePerHour(cluster_, allocations_[i]));
  }

  Infeasibility WhyNone() const {
    const auto fastest = RunnerUp([](size_t) { return true; },
                                  [&](size_t a, size_t b) { return SecondsOf(a) < SecondsOf(b); });
    if (!fastest.has_value()) {
      // The largest allocation that was searched tells most.
      const Infeasibility* largest = nullptr;
      int64_t accelerators = -1;
      for (size_t i = 0; i < choice_.points.size(); ++i) {
        const auto& outcome = choice_.points[i].outcome;
        if (!outcome.has_value() || !outcome->infeasibility.has_value()) continue;
        if (AcceleratorsAt(i) <= accelerators) continue;
        accelerators = AcceleratorsAt(i);
        largest = &*outcome->infeasibility;
      }
      return largest == nullptr ? Infeasibility{} : *largest;
    }
    Infeasibility why;
    const bool late = objective_.deadline_seconds.has_value() &&
                      SecondsOf(*fastest) > *objective_.deadline_seconds;
    why.binding_rule = late ? "deadline" : "throughput";
    why.summary = absl::StrCat("No allocation was found to meet ", LimitText(), ": the fastest, ",
                               Name(*fastest), ", gives ", Figures(*fastest), ".");
    // Rounded to the side on which it holds.
    why.suggestion =
        late ? absl::StrFormat("Allow %.3f s an iteration.",
                               std::ceil(SecondsOf(*fastest) * 1e3) / 1e3)
             : absl::StrFormat("Ask for at most %d tokens/s.", TokensPerSecond(*fastest));
    return why;
  }

  const cluster::Cluster& cluster_;
  const Objective& objective_;
  const std::vector<Allocation>& allocations_;
  const Interrupter& interrupter_;
  const double tokens_;  // Of an iteration.
  const bool largest_first_;
  AllocationSearches searches_;
  int64_t searched_ = 0;
  Choice choice_;
};

}  // namespace

double PricePerHour(const cluster::Cluster& cluster, const Allocation& allocation) {
  double sum = 0;
  for (size_t pool = 0; pool < cluster.pools.size(); ++pool) {
    const cluster::Pool& of = cluster.pools[pool];
    sum += static_cast<double>(allocation.nodes[pool] * of.accelerators_per_node) *
           of.price_per_accelerator_hour.value_or(0);
  }
  return sum;
}

double TokensPerPrice(const cluster::Cluster& cluster, const Allocation& allocation,
                      double tokens_per_second) {
  constexpr double kSecondsPerHour = 3600;
  return tokens_per_second * kSecondsPerHour / PricePerHour(cluster, allocation);
}

absl::StatusOr<Choice> Choose(const SearchRequest& request, const Objective& objective,
                              const std::vector<Allocation>& allocations, Solve solve,
                              const Interrupter& interrupter,
                              absl::FunctionRef<void(const ChoiceProgress&)> progress) {
  return Chooser(request, objective, allocations, solve, interrupter).Run(progress);
}

}  // namespace hapmoe::search
