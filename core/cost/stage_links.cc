#include "core/cost/stage_links.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

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

bool LiesEvenly(const GroupPlacement& group, const StagePlace& place, const Fabric& fabric) {
  if (!LiesEvenly(group, place, fabric.domain)) return false;
  if (!fabric.bridge.has_value()) return true;
  return fabric.domain % fabric.bridge->island == 0 &&
         LiesEvenly(group, place, fabric.bridge->island);
}

// Counts the members of all groups of a kind, domain by domain and island by island.
class Counter {
 public:
  Counter(const Fabric& fabric, int64_t ranks) : fabric_(fabric) {
    split_.ranks = split_.fewest = ranks;
  }

  void AddGroup(const GroupPlacement& group, const StagePlace& place, int64_t first) {
    int64_t domains = 0;
    for (int64_t i = 0; i < group.size;) {
      // Numbers ascend, so that a domain's members follow each other.
      const int64_t domain = fabric_.DomainOf(place.Number(first + i * group.stride));
      islands_.clear();
      int64_t members = 0;
      for (; i < group.size; ++i, ++members) {
        const int64_t number = place.Number(first + i * group.stride);
        if (fabric_.DomainOf(number) != domain) break;
        ++islands_[fabric_.IslandInDomain(number)];
      }
      ++domains;
      split_.fewest = std::min(split_.fewest, members);
      split_.most = std::max(split_.most, members);
      if (islands_.size() < 2) continue;
      for (const auto& [island, inside] : islands_) {
        split_.crossing = std::max(split_.crossing, ++crossing_[{domain, island}]);
        split_.crossing_pairs = std::max(split_.crossing_pairs, inside * (members - inside));
      }
    }
    split_.domains = std::max(split_.domains, domains);
  }

  const GroupSplit& split() const { return split_; }

 private:
  const Fabric& fabric_;
  GroupSplit split_;
  std::map<int64_t, int64_t> islands_;                       // Members, in one domain.
  std::map<std::pair<int64_t, int64_t>, int64_t> crossing_;  // Groups, by domain and island.
};

GroupSplit SplitAt(const GroupPlacement& group, const Fabric& fabric, const StagePlace& place,
                   int64_t ranks) {
  // Domains of several nodes are the scheduler's to choose.
  if (group.size <= 1 || fabric.crosses_nodes || LiesEvenly(group, place, fabric)) {
    return SplitOf(group, fabric);
  }
  const int64_t span = group.size * group.stride;
  const int64_t blocks = ranks / span;
  // Of consecutive accelerators only so many blocks of groups lie differently.
  const int64_t different =
      place.run != 0
          ? blocks
          : std::min(blocks, std::lcm(span, fabric.domain) / span + fabric.domain / span);
  Counter counter(fabric, group.size);
  for (int64_t block = 0; block < different; ++block) {
    for (int64_t offset = 0; offset < group.stride; ++offset) {
      counter.AddGroup(group, place, block * span + offset);
    }
  }
  return counter.split();
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
  split.fewest = split.most = LocalOf(group, fabric.domain);
  split.domains = (group.size + split.most - 1) / split.most;
  if (!fabric.bridge.has_value()) return split;
  const int64_t inside = LocalOf(group, fabric.bridge->island);
  if (inside == split.most) return split;
  split.crossing = fabric.bridge->island / inside;
  split.crossing_pairs = inside * (split.most - inside);
  return split;
}

StageLinks::StageLinks(const Fabric& fabric, const plan::Degrees& degrees, const StagePlace& place)
    : fabric_(fabric) {
  const auto split = [&](const GroupPlacement& group) {
    return SplitAt(group, fabric_, place, degrees.stage_ranks());
  };
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i] = split(PlacementOf(static_cast<Group>(i), degrees));
  }
  dense_sync_ = split(DenseSyncPlacement(degrees));
  expert_sync_ = split(ExpertSyncPlacement(degrees));
}

}  // namespace hapmoe::cost
