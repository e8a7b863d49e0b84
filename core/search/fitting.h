// Whether anything fits, and by how much it does not: by memory alone, far cheaper than a search.
#ifndef HAPMOE_CORE_SEARCH_FITTING_H_
#define HAPMOE_CORE_SEARCH_FITTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/cost/mesh_cost.h"
#include "core/search/candidate_costs.h"
#include "core/search/search.h"
#include "core/search/space.h"

namespace hapmoe::search {

// The stage of a pipeline that lacks most memory.
struct TightStage {
  double short_bytes = 0;  // 0: it fits, and so does everything else.
  int64_t stage = 0;       // From the front of `stages`.
  int64_t stages = 0;
  int64_t pool = 0;
  bool host_binds = false;  // The host lacks them, not the accelerator.
};

// Answers for candidates of one request, and of requests that differ from it in nothing but their
// numbers of nodes and their constraints on degrees, micro-batches and idling: what a stage holds
// does not depend on these, and is worked out once. Another optimizer can be asked about too.
//
// Rests on two facts. A stage that holds fewer layers, or fewer micro-batches in flight, needs no
// more memory; and the stage at distance e from the end of a pipeline holds min(e + 1, M)
// micro-batches whatever is in front of it. So the stages from the end may each take as many layers
// as they can, and all that matters of a run of stages is how many layers it covers.
//
// Not thread safe.
class Fitting {
 public:
  explicit Fitting(const SearchRequest& request);
  Fitting(const Fitting&) = delete;
  Fitting& operator=(const Fitting&) = delete;

  // Asks from now on with another optimizer: it changes what a stage holds, but no operation of it.
  void SetOptimizer(const model::Optimizer& optimizer);

  // The pipeline of the candidate whose tightest stage lacks least, where it lacks no more than
  // `most_bytes`; nothing where there is none, or where there are too many placements to try
  // (kMaxPlacements). To a millionth of the bytes. `constraints`: which of the candidate's stages
  // may be left out.
  std::optional<TightStage> Tightest(const Candidate& candidate, const Constraints& constraints,
                                     double most_bytes);
  // Whether any pipeline of the candidate lacks no more than `most_bytes`.
  bool Within(const Candidate& candidate, const Constraints& constraints, double most_bytes);

 private:
  class Reach;

  // What the runs of layers of one pool need under one candidate's degrees.
  struct Mesh {
    int64_t pool = 0;
    std::unique_ptr<cost::MeshCost> cost;
    struct Need {
      double short_bytes = 0;
      bool host_binds = false;
    };
    absl::flat_hash_map<uint64_t, Need> needs;
  };

  // Whether no other dispatcher that may be used instead needs less memory, or as little and comes
  // first.
  bool UsesLeastDispatcher(const Candidate& candidate) const;
  Mesh& MeshOf(int64_t pool, const Candidate& candidate);
  Mesh::Need NeedOf(Mesh& mesh, const plan::Chunk& chunk, int64_t in_flight) const;
  // Whether no pipeline of the candidate can be within `most_bytes`; quick, and may miss some.
  bool Hopeless(const std::vector<Mesh*>& meshes, const Candidate& candidate, double most_bytes);
  std::optional<TightStage> Find(const Candidate& candidate, const Constraints& constraints,
                                 double most_bytes);

  const SearchRequest request_;  // A copy: the meshes refer to its problem.
  cost::Problem problem_;        // The same with the optimizer that is asked about.
  const RecomputeOptions options_;
  const std::vector<std::optional<model::Dispatcher>> dispatchers_;
  std::vector<int64_t> moe_before_;  // MoE layers in front of a layer.
  int64_t run_first_ = 0;            // The longest run of layers of one kind.
  int64_t run_layers_ = 0;
  absl::flat_hash_map<std::vector<int64_t>, Mesh> meshes_;
};

// Placements of stages on pools that are tried for a candidate at most.
inline constexpr int64_t kMaxPlacements = 2'000'000;

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_FITTING_H_
