// Everything that the search needs of one candidate: costs on each pool, transfers, quick bounds.
#ifndef HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_
#define HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cost/mesh_cost.h"
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

// Costs of one candidate. The request, the classes and the options must outlive it. Not thread
// safe.
class CandidateCosts {
 public:
  CandidateCosts(const SearchRequest& request, const Candidate& candidate,
                 const RangeClasses& classes, const RecomputeOptions& options);
  CandidateCosts(const CandidateCosts&) = delete;
  CandidateCosts& operator=(const CandidateCosts&) = delete;

  // For the dynamic program; points into this object.
  const PipelineProblem& problem() const { return problem_; }
  // No plan of the candidate takes less, whether it fits or not.
  double lower_bound_seconds() const { return lower_bound_seconds_; }
  // No less than this is what a simulation of a plan of this candidate gives, in far less time.
  double LowerBoundOf(const plan::Plan& plan) const;
  // Costs of each mesh of a plan of this candidate.
  std::vector<const cost::MeshCost*> CostsOf(const plan::Plan& plan) const;
  const std::vector<double>& layer_seconds() const { return layer_seconds_; }
  StageChoices& choices(int64_t pool) { return *choices_[static_cast<size_t>(pool)]; }

 private:
  std::vector<std::unique_ptr<cost::MeshCost>> owned_costs_;
  std::vector<std::unique_ptr<StageChoices>> owned_choices_;
  std::vector<const cost::MeshCost*> costs_;
  std::vector<StageChoices*> choices_;
  std::vector<std::vector<double>> send_seconds_;
  std::vector<double> layer_seconds_;
  double lower_bound_seconds_ = 0;
  PipelineProblem problem_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_CANDIDATE_COSTS_H_
