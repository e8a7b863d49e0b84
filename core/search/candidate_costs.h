// Everything that the search needs of one candidate: costs on each pool, transfers, quick bounds.
#ifndef HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_
#define HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/cost/mesh_cost.h"
#include "core/search/bound.h"
#include "core/search/pipeline_dp.h"
#include "core/search/search.h"
#include "core/search/space.h"
#include "core/search/stage_choice.h"

namespace hapmoe::search {

// What a stage may recompute beside whole layers, least recomputation first: what the engine's
// rules allow of nothing, single modules and module sets; or only the job's own choice.
struct RecomputeOptions {
  std::vector<model::Recompute> options;
  bool only_options = false;  // Whole layers may not be recomputed.
  std::vector<uint32_t> modules;
};
RecomputeOptions RecomputeOptionsOf(const SearchRequest& request);

// Whether the engine's rules let plans of the request recompute like this.
bool RecomputeAllowed(const SearchRequest& request, const model::Recompute& recompute);

// Seconds of the forward and backward pass of one layer, the cheapest kind of layer without its
// neighbours, recomputation or transfers, on each kind of stage at its best place.
using LayerSeconds = std::vector<double>;

// No plan of the candidate takes less, whether it fits or not.
double CandidateBound(const SearchRequest& request, const Candidate& candidate,
                      const LayerSeconds& layer_seconds);

// Costs of each kind of stage of a candidate, and of all candidates with the same kinds.
using KindCosts = std::vector<ByPlace<std::shared_ptr<const cost::MeshCost>>>;
KindCosts KindCostsOf(const SearchRequest& request, const Candidate& candidate,
                      const RecomputeOptions& options);

// Costs of one candidate. The request, the classes and the options must outlive it. Not thread
// safe.
class CandidateCosts {
 public:
  CandidateCosts(const SearchRequest& request, const Candidate& candidate,
                 const RangeClasses& classes, const RecomputeOptions& options)
      : CandidateCosts(request, candidate, classes, options,
                       KindCostsOf(request, candidate, options)) {}
  CandidateCosts(const SearchRequest& request, const Candidate& candidate,
                 const RangeClasses& classes, const RecomputeOptions& options, KindCosts costs);
  CandidateCosts(const CandidateCosts&) = delete;
  CandidateCosts& operator=(const CandidateCosts&) = delete;

  // For the dynamic program; points into this object.
  const PipelineProblem& problem() const { return problem_; }
  const LayerSeconds& layer_seconds() const { return layer_seconds_; }
  StageChoices& choices(int64_t kind, int64_t units_behind) {
    return *choices_[static_cast<size_t>(kind)].At(units_behind);
  }
  // Of the kind of stage that a mesh of a plan of this candidate holds.
  double LayerSecondsOn(const plan::Mesh& mesh) const { return layer_seconds_[KindOf(mesh)]; }
  // `behind`: accelerators of the pool behind the stage.
  StageChoices& ChoicesOn(const plan::Mesh& mesh, int64_t behind) {
    return *choices_[KindOf(mesh)].At(behind / candidate_.unit_ranks);
  }
  // Costs of each stage of a plan of this candidate.
  std::vector<const cost::MeshCost*> CostsOf(const plan::Plan& plan) const;
  // The iteration time of a plan, as cost::Predict gives it, or a lower bound of it that is not
  // below the limit.
  double SimulatedSeconds(const plan::Plan& plan, double limit_seconds) const;
  // No more than that, in far less time.
  double LowerBoundOf(const plan::Plan& plan) const { return BoundOf(TimingOf(plan)); }

 private:
  // What the schedule of a plan depends on.
  struct Timing {
    std::vector<cost::StageTimes> stages;
    std::vector<cost::TailCost> tails;
    cost::ScheduleOptions options;

    double StepSeconds() const {
      double step = 0;
      for (const cost::TailCost& tail : tails) step = std::max(step, tail.step_seconds());
      return step;
    }
    // `finish(i)`: end of the last backward pass of stage i.
    template <typename Finish>
    double IterationSeconds(const Finish& finish) const {
      double ready = 0;
      for (size_t i = 0; i < tails.size(); ++i) {
        ready = std::max(ready, finish(i) + tails[i].gradient_sync_seconds);
      }
      return ready + StepSeconds();
    }
  };
  Timing TimingOf(const plan::Plan& plan) const;
  static double BoundOf(const Timing& timing);
  size_t KindOf(const plan::Mesh& mesh) const;
  double SendSecondsOf(size_t from_kind, size_t to_kind, cost::Reach reach) const;

  const Candidate& candidate_;
  const KindCosts costs_;
  std::vector<ByPlace<std::unique_ptr<StageChoices>>> choices_;
  std::vector<Port> ports_;
  std::vector<size_t> port_of_;     // [kind]
  std::optional<PortSends> sends_;  // Always there.
  LayerSeconds layer_seconds_;
  PipelineProblem problem_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_
