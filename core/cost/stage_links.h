// Where the ranks of a stage lie, and over which links its groups communicate.
#ifndef HAPMOE_CORE_COST_STAGE_LINKS_H_
#define HAPMOE_CORE_COST_STAGE_LINKS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/cost/fabric.h"
#include "core/model/operations.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// Where a stage lies among the accelerators that a plan takes of a pool. They are numbered from the
// pipeline's end, as plan::AssignNodes fills nodes, so that a place depends on nothing that comes
// in front of it; nodes begin at multiples of their size.
struct StagePlace {
  int64_t behind = 0;  // Accelerators in front of the first number.
  // Runs of consecutive accelerators and from the start of one to the next; 0: one run.
  int64_t run = 0;
  int64_t stride = 0;

  // The number of the stage's accelerator `index`, counted the same way.
  int64_t Number(int64_t index) const {
    return run == 0 ? behind + index : behind + index / run * stride + index % run;
  }
};

// The place of each stage, in the pipeline's order.
std::vector<StagePlace> PlacesOf(const plan::Plan& plan, const cluster::Cluster& cluster);

// Ranks of a group: `size` ranks of a stage, `stride` apart. Groups of one kind take all its ranks.
struct GroupPlacement {
  int64_t size = 1;
  int64_t stride = 1;
};

// Where the groups of a stage lie under the engine's rank order: tp fastest, then cp, then dp; for
// experts etp, then ep, then expert dp.
GroupPlacement PlacementOf(model::Group group, const plan::Degrees& degrees);
// dp x cp, over which dense parameters are synchronised.
GroupPlacement DenseSyncPlacement(const plan::Degrees& degrees);
// expert dp, over which expert parameters are synchronised.
GroupPlacement ExpertSyncPlacement(const plan::Degrees& degrees);

// How the groups of one kind are split over domains, and over the islands of each. Where they are
// split unevenly each figure is the worst of any group and place.
struct GroupSplit {
  int64_t ranks = 1;
  int64_t domains = 1;  // That hold a member.
  int64_t fewest = 1;   // Members in any of them, whose rails carry what goes between domains.
  int64_t most = 1;
  // Groups with members in one island and in others of its domain: all cross the bridge at once.
  int64_t crossing = 0;
  // Of such a group: pairs of a member inside an island and one beyond it.
  int64_t crossing_pairs = 0;

  friend bool operator==(const GroupSplit&, const GroupSplit&) = default;
};

// Of groups that fill domains evenly, from the first rank of one on.
GroupSplit SplitOf(const GroupPlacement& group, const Fabric& fabric);

// The links that the groups of one stage use. Groups of a kind communicate at once and wait for
// each other, so the worst of them counts. Domains of several nodes are another matter: which nodes
// share one is the scheduler's to choose, which keeps groups together where they fit.
class StageLinks {
 public:
  StageLinks(const Fabric& fabric, const plan::Degrees& degrees, const StagePlace& place = {});

  const Fabric& fabric() const { return fabric_; }
  const GroupSplit& Of(model::Group group) const { return groups_[static_cast<size_t>(group)]; }
  const GroupSplit& dense_sync() const { return dense_sync_; }
  const GroupSplit& expert_sync() const { return expert_sync_; }

  // Whether the groups of another stage of the same pool and degrees are split alike.
  bool SplitsLike(const StageLinks& other) const {
    return groups_ == other.groups_ && dense_sync_ == other.dense_sync_ &&
           expert_sync_ == other.expert_sync_;
  }

 private:
  Fabric fabric_;
  std::array<GroupSplit, model::kGroups> groups_;
  GroupSplit dense_sync_;
  GroupSplit expert_sync_;
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_STAGE_LINKS_H_
