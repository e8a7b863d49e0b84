#include "core/cost/border.h"

#include <algorithm>
#include <cstddef>

namespace hapmoe::cost {
namespace {

// Messages that a rank exchanges with a neighbouring stage for one micro-batch, one after the
// other: the sequence is cut in tp x cp parts and the batch in dp parts on each side, and every
// pair of parts that overlap is one (FlagScale,
// flagscale/train/hetero/parallel_context.py:649-744).
double Messages(const plan::Degrees& own, const plan::Degrees& other) {
  const auto parts = [](int64_t mine, int64_t theirs) {
    const int64_t most = (theirs + mine - 1) / mine + (theirs > mine && theirs % mine != 0 ? 1 : 0);
    return static_cast<double>(most);
  };
  return parts(own.tp * own.cp, other.tp * other.cp) * parts(own.dp, other.dp);
}

// Accelerators of a pool, [first, last).
struct Span {
  int64_t pool = 0;
  int64_t first = 0;
  int64_t last = 0;
};

Reach ReachBetween(const Fabric& fabric, const Span& a, const Span& b) {
  if (a.pool != b.pool) return Reach::kNetwork;
  return ReachOf(fabric, std::min(a.first, b.first), std::max(a.last, b.last));
}

// Of each stage, in the pipeline's order.
std::vector<Span> SpansOf(const plan::Plan& plan, const cluster::Cluster& cluster) {
  std::vector<Span> spans;
  std::vector<int64_t> taken(cluster.pools.size(), 0);
  for (auto mesh = plan.meshes.rbegin(); mesh != plan.meshes.rend(); ++mesh) {
    int64_t& next = taken[static_cast<size_t>(mesh->pool)];
    if (!spans.empty() && spans.back().pool != mesh->pool) {
      // A pool that returns goes on with another node.
      const int64_t node = cluster.pools[static_cast<size_t>(mesh->pool)].accelerators_per_node;
      next = (next + node - 1) / node * node;
    }
    for (size_t i = 0; i < mesh->stages.size(); ++i) {
      spans.push_back({mesh->pool, next, next + mesh->degrees.stage_ranks()});
      next = spans.back().last;
    }
  }
  std::reverse(spans.begin(), spans.end());
  return spans;
}

// Where the ranks of all stages alternate: the farthest of all replicas.
Reach AlternatingReach(const plan::Degrees& degrees, int64_t stages, int64_t from, int64_t to,
                       const Fabric& fabric) {
  const int64_t block = degrees.tp * degrees.cp;
  // From the end, a stage is where its mirror image is from the start. Replicas beyond a domain's
  // size lie in their domains as others do.
  const auto span = [&](int64_t replica, int64_t stage) {
    const int64_t first = (replica * stages + stages - 1 - stage) * block;
    return Span{0, first, first + block};
  };
  Reach farthest = Reach::kIsland;
  for (int64_t replica = 0; replica < std::min(degrees.dp, fabric.domain); ++replica) {
    farthest = std::max(farthest, ReachBetween(fabric, span(replica, from), span(replica, to)));
  }
  return farthest;
}

}  // namespace

double SendSeconds(const Problem& problem, int64_t from_pool, const MeshCost& from, int64_t to_pool,
                   const MeshCost& to, Reach reach, bool* assumed) {
  const Route route =
      from_pool == to_pool
          ? RouteWithin(from.fabric(), from.degrees().stage_ranks(), reach)
          : RouteBetween(problem.cluster, from_pool, to_pool, from.fabric(), to.fabric(), assumed);
  const double messages =
      std::max(Messages(from.degrees(), to.degrees()), Messages(to.degrees(), from.degrees()));
  return route.Seconds(std::max(from.border_bytes(), to.border_bytes())) +
         (messages - 1) * route.latency_seconds;
}

std::vector<Reach> BorderReaches(const Problem& problem, const plan::Plan& plan,
                                 const std::vector<const MeshCost*>& mesh_costs) {
  const bool alternating = plan.rank_order == plan::RankOrder::kDataOutermost;
  const std::vector<Span> spans = SpansOf(plan, problem.cluster);
  std::vector<Reach> reaches;
  for (size_t m = 0; m < plan.meshes.size(); ++m) {
    const Fabric& fabric = mesh_costs[m]->fabric();
    for (size_t i = 0; i < plan.meshes[m].stages.size(); ++i) {
      const size_t from = reaches.size();
      const size_t to = (from + 1) % spans.size();
      reaches.push_back(alternating
                            ? AlternatingReach(plan.meshes[m].degrees, plan.pipeline_stages(),
                                               static_cast<int64_t>(from), static_cast<int64_t>(to),
                                               fabric)
                            : ReachBetween(fabric, spans[from], spans[to]));
    }
  }
  return reaches;
}

}  // namespace hapmoe::cost
