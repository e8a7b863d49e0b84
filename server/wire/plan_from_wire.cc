#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

// Sums of as many as a message holds are numbers, and so are products of three. Those of degrees
// and stages are search::CheckValid's to bound, by the accelerators that there are.
constexpr int64_t kMostOfAnything = 65536;

class PlanReader {
 public:
  PlanReader(const cluster::Cluster& cluster, Violations& violations)
      : cluster_(cluster), violations_(violations) {}

  plan::Plan Read(const v1::ExecutionPlan& wire) {
    plan::Plan plan;
    plan.engine = wire.engine();
    plan.micro_batch = Count(wire.micro_batch_size(), 1, "plan.micro_batch_size");
    plan.global_batch = Count(wire.global_batch_size(), 1, "plan.global_batch_size");
    plan.micro_batches = Count(wire.micro_batches(), 1, "plan.micro_batches");
    plan.sequence_parallel = wire.sequence_parallel();
    plan.dispatcher = model::DispatcherNamed(wire.token_dispatcher());
    if (!plan.dispatcher.has_value() && !wire.token_dispatcher().empty()) {
      Refuse("token_dispatcher_known", "plan.token_dispatcher",
             "Must be allgather, alltoall or flex.");
    }
    if (wire.meshes().empty()) Refuse("plan_has_meshes", "plan.meshes", "Must not be empty.");
    int64_t chunks = 0;
    for (int m = 0; m < wire.meshes_size(); ++m) {
      const std::string field = absl::StrCat("plan.meshes[", m, "]");
      plan.meshes.push_back(ReadMesh(wire.meshes(m), field));
      for (const plan::Stage& stage : plan.meshes.back().stages) {
        chunks += static_cast<int64_t>(stage.chunks.size());
      }
    }
    if (chunks > kMostOfAnything) {
      Refuse("plan_size", "plan.meshes",
             absl::StrCat("Must hold at most ", kMostOfAnything, " chunks, not ", chunks, "."));
    }
    return plan;
  }

 private:
  void Refuse(absl::string_view rule, absl::string_view field, std::string message) {
    violations_.push_back({std::string(rule), std::string(field), std::move(message)});
  }

  int64_t Count(int64_t value, int64_t least, const std::string& field) {
    if (value < least || value > kMostOfAnything) {
      Refuse("plan_figure_in_range", field,
             absl::StrCat("Must be from ", least, " to ", kMostOfAnything, ", not ", value, "."));
    }
    return value;
  }

  plan::Mesh ReadMesh(const v1::Mesh& wire, const std::string& field) {
    plan::Mesh mesh;
    mesh.pool = -1;
    for (size_t pool = 0; pool < cluster_.pools.size(); ++pool) {
      if (cluster_.pools[pool].name == wire.pool()) mesh.pool = static_cast<int64_t>(pool);
    }
    if (mesh.pool < 0) {
      Refuse("plan_pool_known", absl::StrCat(field, ".pool"), "The cluster has no such pool.");
    }
    mesh.degrees.tp = Count(wire.tp(), 1, absl::StrCat(field, ".tp"));
    mesh.degrees.cp = Count(wire.cp(), 1, absl::StrCat(field, ".cp"));
    mesh.degrees.dp = Count(wire.dp(), 1, absl::StrCat(field, ".dp"));
    mesh.degrees.ep = Count(wire.ep(), 1, absl::StrCat(field, ".ep"));
    mesh.degrees.etp = Count(wire.etp(), 1, absl::StrCat(field, ".etp"));
    for (int s = 0; s < wire.stages_size(); ++s) {
      mesh.stages.push_back(ReadStage(wire.stages(s), absl::StrCat(field, ".stages[", s, "]")));
    }
    return mesh;
  }

  plan::Stage ReadStage(const v1::Stage& wire, const std::string& field) {
    plan::Stage stage;
    for (int c = 0; c < wire.chunks_size(); ++c) {
      const v1::Chunk& from = wire.chunks(c);
      const std::string at = absl::StrCat(field, ".chunks[", c, "]");
      plan::Chunk chunk;
      chunk.first_layer = Count(from.first_layer(), 0, absl::StrCat(at, ".first_layer"));
      chunk.layers = Count(from.layers(), 0, absl::StrCat(at, ".layers"));
      chunk.mtp_layers = Count(from.mtp_layers(), 0, absl::StrCat(at, ".mtp_layers"));
      chunk.embedding = from.embedding();
      chunk.loss = from.loss();
      stage.chunks.push_back(chunk);
    }
    stage.recompute = ReadRecompute(wire.recompute(), absl::StrCat(field, ".recompute"));
    return stage;
  }

  model::Recompute ReadRecompute(const v1::Recompute& wire, const std::string& field) {
    using Granularity = model::Recompute::Granularity;
    model::Recompute recompute;
    if (wire.granularity() == "selective") {
      recompute.granularity = Granularity::kSelective;
      for (const std::string& module : wire.modules()) {
        bool known = false;
        for (const auto& [bit, name] : model::kRecomputeModuleNames) {
          if (module != name) continue;
          recompute.modules |= bit;
          known = true;
        }
        if (!known) {
          Refuse("plan_recompute_known", absl::StrCat(field, ".modules"), "Not a module.");
        }
      }
    } else if (wire.granularity() == "full") {
      recompute.granularity = Granularity::kFull;
      recompute.method = wire.method() == "block" ? model::Recompute::Method::kBlock
                                                  : model::Recompute::Method::kUniform;
      recompute.num_layers = Count(wire.num_layers(), 0, absl::StrCat(field, ".num_layers"));
    } else if (!wire.granularity().empty() && wire.granularity() != "none") {
      Refuse("plan_recompute_known", absl::StrCat(field, ".granularity"),
             "Must be \"none\", \"selective\" or \"full\".");
    }
    return recompute;
  }

  const cluster::Cluster& cluster_;
  Violations& violations_;
};

}  // namespace

plan::Plan PlanFromWire(const v1::ExecutionPlan& wire, const cluster::Cluster& cluster,
                        Violations& violations) {
  return PlanReader(cluster, violations).Read(wire);
}

}  // namespace hapmoe::server
