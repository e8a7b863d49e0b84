#include "core/cost/stage_links.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace hapmoe::cost {
namespace {

using model::Group;

// Members of a group that share a unit of `size` accelerators, where its first rank starts one.
int64_t LocalOf(const GroupPlacement& group, int64_t size) {
  return std::clamp<int64_t>(size / std::max<int64_t>(1, group.stride), 1, group.size);
}

// Whether every group of a stage of consecutive accelerators lies in units of `size` as one does
// whose first rank starts a unit.
bool LiesEvenly(const GroupPlacement& group, const StagePlace& place, int64_t size) {
  if (place.run != 0) return false;
  const int64_t span = group.size * group.stride;
  if (size % span == 0) return place.behind % span == 0;
  if (group.stride % size == 0) return true;
  return span % size == 0 && size % group.stride == 0 && place.behind % size == 0;
}

// The most units that a group of the stage is in, and the fewest members in any.
struct Units {
  int64_t count = 1;
  int64_t members = 1;
};

Units UnitsOf(const GroupPlacement& group, const StagePlace& place, int64_t ranks, int64_t size) {
  if (place.run == 0 && place.behind % size + ranks <= size) return {1, group.size};
  if (LiesEvenly(group, place, size)) {
    const int64_t local = LocalOf(group, size);
    return {(group.size + local - 1) / local, local};
  }
  const int64_t span = group.size * group.stride;
  // Of consecutive accelerators only so many blocks of groups lie differently.
  const int64_t blocks =
      place.run != 0 ? ranks / span : std::min(ranks / span, size / std::gcd(span, size));
  Units worst = {1, group.size};
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t offset = 0; offset < group.stride; ++offset) {
      int64_t count = 0;
      int64_t members = 0;
      int64_t last = -1;
      for (int64_t i = 0; i < group.size; ++i) {
        const int64_t unit = place.Number(block * span + offset + i * group.stride) / size;
        if (unit != last) {
          if (count > 0) worst.members = std::min(worst.members, members);
          ++count;
          members = 0;
          last = unit;
        }
        ++members;
      }
      worst.members = std::min(worst.members, members);
      worst.count = std::max(worst.count, count);
    }
  }
  return worst;
}

}  // namespace

std::vector<StagePlace> PlacesOf(const plan::Plan& plan, const cluster::Cluster& cluster) {
  std::vector<StagePlace> places;
  if (plan.rank_order == plan::RankOrder::kDataOutermost) {
    // From the end, a stage is where its mirror image is from the start.
    const plan::Degrees& degrees = plan.meshes.front().degrees;
    const int64_t run = degrees.tp * degrees.cp;
    const int64_t stages = plan.pipeline_stages();
    for (int64_t stage = 0; stage < stages; ++stage) {
      places.push_back({(stages - 1 - stage) * run, run, stages * run});
    }
    return places;
  }
  std::vector<int64_t> taken(cluster.pools.size(), 0);
  int64_t pool_behind = plan.meshes.back().pool;
  for (auto mesh = plan.meshes.rbegin(); mesh != plan.meshes.rend(); ++mesh) {
    int64_t& next = taken[static_cast<size_t>(mesh->pool)];
    if (pool_behind != mesh->pool) {
      // A pool that returns goes on with another node.
      const int64_t node = cluster.pools[static_cast<size_t>(mesh->pool)].accelerators_per_node;
      next = (next + node - 1) / node * node;
    }
    pool_behind = mesh->pool;
    for (size_t i = 0; i < mesh->stages.size(); ++i) {
      places.push_back({.behind = next});
      next += mesh->degrees.stage_ranks();
    }
  }
  std::reverse(places.begin(), places.end());
  return places;
}

GroupPlacement PlacementOf(Group group, const plan::Degrees& degrees) {
  switch (group) {
    case Group::kTensor:
      return {degrees.tp, 1};
    case Group::kContext:
      return {degrees.cp, degrees.tp};
    case Group::kExpertTensor:
      return {degrees.etp, 1};
    case Group::kExpert:
      return {degrees.ep, degrees.etp};
    case Group::kDispatch:
      return {degrees.dispatch_ranks(), 1};
    case Group::kNone:
      return {1, 1};
  }
  return {1, 1};
}

GroupPlacement DenseSyncPlacement(const plan::Degrees& degrees) {
  return {degrees.dp * degrees.cp, degrees.tp};
}

GroupPlacement ExpertSyncPlacement(const plan::Degrees& degrees) {
  return {degrees.expert_dp(), degrees.etp * degrees.ep};
}

GroupSplit SplitOf(const GroupPlacement& group, const Fabric& fabric) {
  GroupSplit split;
  split.ranks = group.size;
  split.local = LocalOf(group, fabric.domain);
  split.island = fabric.bridge.has_value() ? LocalOf(group, fabric.bridge->island) : split.local;
  split.domains = (group.size + split.local - 1) / split.local;
  return split;
}

StageLinks::StageLinks(const Fabric& fabric, const plan::Degrees& degrees, const StagePlace& place)
    : fabric_(fabric) {
  const auto split = [&](const GroupPlacement& group) {
    GroupSplit one = SplitOf(group, fabric_);
    if (group.size <= 1 || fabric_.crosses_nodes) return one;
    const int64_t ranks = degrees.stage_ranks();
    const Units domains = UnitsOf(group, place, ranks, fabric_.domain);
    one.domains = domains.count;
    one.local = one.island = domains.members;
    if (fabric_.bridge.has_value()) {
      one.island =
          std::min(one.local, UnitsOf(group, place, ranks, fabric_.bridge->island).members);
    }
    return one;
  };
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i] = split(PlacementOf(static_cast<Group>(i), degrees));
  }
  dense_sync_ = split(DenseSyncPlacement(degrees));
  expert_sync_ = split(ExpertSyncPlacement(degrees));
}

}  // namespace hapmoe::cost
