#include "core/cost/coverage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/cost/compute_time.h"
#include "core/cost/mesh_cost.h"
#include "core/model/operations.h"

namespace hapmoe::cost {
namespace {

using model::LayerKind;
using model::Operation;
using model::OperationKind;

// How often the stages of a mesh run each list of operations for one micro-batch.
struct Counts {
  int64_t dense = 0;
  int64_t moe = 0;
  int64_t embedding = 0;
  int64_t prediction = 0;
  int64_t output = 0;
  int64_t final_norm = 0;
};

Counts CountsOf(const model::TransformerSpec& spec, const plan::Mesh& mesh) {
  Counts counts;
  for (const plan::Stage& stage : mesh.stages) {
    for (const plan::Chunk& chunk : stage.chunks) {
      const auto first = spec.layer_kinds.begin() + chunk.first_layer;
      const int64_t moe = std::count(first, first + chunk.layers, LayerKind::kMoe);
      counts.moe += moe;
      counts.dense += chunk.layers - moe;
      (spec.mtp_kind() == LayerKind::kMoe ? counts.moe : counts.dense) += chunk.mtp_layers;
      counts.prediction += chunk.mtp_layers;
      counts.embedding += chunk.embedding ? 1 : 0;
      counts.output += chunk.loss ? 1 : 0;
      // With prediction layers the final norm stays with the last decoder layer.
      const bool ends_decoder =
          spec.mtp_layers > 0 ? chunk.layers > 0 && chunk.first_layer + chunk.layers == spec.layers
                              : chunk.loss;
      counts.final_norm += ends_decoder ? 1 : 0;
    }
  }
  return counts;
}

// Collects operations of equal name and shape.
class Ledger {
 public:
  Ledger(const Problem& problem, double micro_batches)
      : training_(problem.training), micro_batches_(micro_batches) {}

  void Add(const profile::AcceleratorProfile& profile, const model::Operations& operations,
           int64_t count) {
    const ComputeTime compute(profile);
    for (const Operation& op : operations) {
      if (op.kind == OperationKind::kCollective) continue;
      Evidence evidence;
      compute.Forward(op, training_, evidence);
      compute.Backward(op, training_, evidence);
      if (evidence.total() <= 0) continue;
      evidence *= static_cast<double>(count) * micro_batches_;
      const int64_t groups = op.kind == OperationKind::kStream ? 0 : op.groups;
      entries_[{profile.name, op.name, op.m, op.n, op.k, groups}] += evidence;
    }
  }

  std::vector<OperationCoverage> Sorted() const {
    std::vector<OperationCoverage> list;
    for (const auto& [key, evidence] : entries_) {
      const auto& [accelerator, operation, m, n, k, groups] = key;
      list.push_back({accelerator, operation, m, n, k, groups, evidence});
    }
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.evidence.analytic_seconds > b.evidence.analytic_seconds;
    });
    return list;
  }

 private:
  const model::TrainingSpec& training_;
  const double micro_batches_;
  std::map<std::tuple<std::string, std::string, int64_t, int64_t, int64_t, int64_t>, Evidence>
      entries_;
};

}  // namespace

std::vector<OperationCoverage> CoverageOf(const Problem& problem, const plan::Plan& plan) {
  const model::TransformerSpec& spec = problem.model;
  Ledger ledger(problem, static_cast<double>(plan.micro_batches));
  for (const plan::Mesh& mesh : plan.meshes) {
    const profile::AcceleratorProfile& profile = *problem.profiles[static_cast<size_t>(mesh.pool)];
    const model::TrainingSpec training = TrainingOn(problem.training, profile);
    const model::Sharding sharding = ShardingOf(mesh.degrees, plan.micro_batch_of(mesh),
                                                plan.sequence_parallel, plan.dispatcher);
    const Counts counts = CountsOf(spec, mesh);
    const auto add = [&](int64_t count, auto operations) {
      if (count > 0) ledger.Add(profile, operations(), count);
    };
    add(counts.dense,
        [&] { return model::LayerOperations(spec, training, LayerKind::kDense, sharding); });
    add(counts.moe,
        [&] { return model::LayerOperations(spec, training, LayerKind::kMoe, sharding); });
    add(counts.embedding, [&] { return model::EmbeddingOperations(spec, training, sharding); });
    add(counts.prediction, [&] { return model::PredictionOperations(spec, training, sharding); });
    add(counts.output, [&] { return model::OutputOperations(spec, training, sharding, true); });
    add(counts.final_norm, [&] { return model::FinalNormOperations(spec, training, sharding); });
  }
  return ledger.Sorted();
}

}  // namespace hapmoe::cost
