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
  int64_t first = 0;
  int64_t last = 0;
};

// The farthest of all ranks that two stages of one pool send between.
Reach ReachBetween(const Fabric& fabric, const StagePlace& from, int64_t from_ranks,
                   const StagePlace& to, int64_t to_ranks) {
  const auto span = [](const StagePlace& place, int64_t ranks, int64_t run) {
    const int64_t first = place.Number(run * place.run);
    return Span{first, first + (place.run == 0 ? ranks : place.run)};
  };
  // Runs beyond a domain's size lie in their domains as others do.
  const int64_t runs = from.run == 0 ? 1 : std::min(from_ranks / from.run, fabric.domain);
  Reach farthest = Reach::kIsland;
  for (int64_t run = 0; run < runs; ++run) {
    const Span a = span(from, from_ranks, run);
    const Span b = span(to, to_ranks, run);
    farthest =
        std::max(farthest, ReachOf(fabric, std::min(a.first, b.first), std::max(a.last, b.last)));
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
                                 const std::vector<const MeshCost*>& stage_costs) {
  const std::vector<StagePlace> places = PlacesOf(plan, problem.cluster);
  std::vector<int64_t> pools;
  for (const plan::Mesh& mesh : plan.meshes) {
    pools.insert(pools.end(), mesh.stages.size(), mesh.pool);
  }
  std::vector<Reach> reaches;
  for (size_t from = 0; from < places.size(); ++from) {
    const size_t to = (from + 1) % places.size();
    reaches.push_back(pools[from] != pools[to]
                          ? Reach::kNetwork
                          : ReachBetween(stage_costs[from]->fabric(), places[from],
                                         stage_costs[from]->degrees().stage_ranks(), places[to],
                                         stage_costs[to]->degrees().stage_ranks()));
  }
  return reaches;
}

}  // namespace hapmoe::cost
