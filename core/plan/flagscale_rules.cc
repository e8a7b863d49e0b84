#include "core/plan/flagscale_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hapmoe::plan {
namespace {

using model::Recompute;
using model::TrainingSpec;
using model::TransformerSpec;

constexpr absl::string_view kMeshes = "hetero_process_meshes";

struct StageAt {
  const Mesh* mesh = nullptr;
  const Stage* stage = nullptr;
};

std::vector<StageAt> StagesOf(const Plan& plan) {
  std::vector<StageAt> stages;
  for (const Mesh& mesh : plan.meshes) {
    for (const Stage& stage : mesh.stages) stages.push_back({&mesh, &stage});
  }
  return stages;
}

std::string Text(const Degrees& degrees) {
  return absl::StrCat("tp ", degrees.tp, ", cp ", degrees.cp, ", dp ", degrees.dp, ", ep ",
                      degrees.ep, ", etp ", degrees.etp);
}

}  // namespace

absl::string_view BrokenFlagScaleStageRule(const TransformerSpec& model, const Degrees& degrees,
                                           StagePosition position) {
  // parallel_context.py:550.
  if (degrees.cp != 1) return "flagscale_context_parallel_is_one";
  // core/transformer/transformer_config.py:761 and 776, of every mesh.
  if (model.heads % degrees.tp != 0) return "heads_divisible_by_tp";
  if (model.query_groups % degrees.tp != 0) return "query_groups_divisible_by_tp";
  if (!model.moe.has_value()) {
    return degrees.ep == 1 ? absl::string_view() : "expert_parallel_needs_experts";
  }
  // core arguments.py:1029-1033.
  if (model.moe->experts % degrees.ep != 0) return "experts_divisible_by_ep";
  const int64_t ranks = degrees.stage_ranks();
  // parallel_context.py:268-271.
  if (ranks % (degrees.etp * degrees.ep) != 0) return "flagscale_mesh_divisible_by_experts_grid";
  // parallel_context.py:537 drops the wrong axis of the experts' grid, so ranks behind the first
  // mesh must not replicate experts, and those of the first at most twice.
  const int64_t replicas = degrees.expert_dp();
  if (replicas > (position.first ? 2 : 1)) return "flagscale_safe_expert_replicas";
  return "";
}

bool FlagScaleDegreesMix(const TransformerSpec& model, const Degrees& a, const Degrees& b) {
  // Pull request 395 meant all or none; the code checks nothing (arguments.py:116).
  return !model.moe.has_value() || (a.ep == 1) == (b.ep == 1);
}

bool FlagScaleEndsMatch(const TransformerSpec& model, const Degrees& first, const Degrees& last) {
  // arguments.py:131-149. Unequal dp would need partial reduction of the shared embedding.
  if (!model.tied_embeddings && model.mtp_layers == 0) return true;
  return first.tp == last.tp && first.dp == last.dp;
}

Violations CheckFlagScaleJob(const TransformerSpec& model, const TrainingSpec& training) {
  Violations violations;
  const bool mixed = std::any_of(model.layer_kinds.begin(), model.layer_kinds.end(),
                                 [&](auto kind) { return kind != model.layer_kinds.front(); });
  if (mixed) {
    violations.push_back(
        {"flagscale_safe_layer_pattern", "--moe-layer-freq",
         "FlagScale numbers the layers of every stage from the first one "
         "(transformer_layer.py.patch:19-23), so dense and MoE layers must not be mixed."});
  }
  if (model.moe.has_value() && training.precision == model::Precision::kFp16) {
    violations.push_back({"flagscale_experts_exclude_fp16", "--fp16",
                          "Expert parallelism does not run in fp16 (training/arguments.py:1029)."});
  }
  if (training.recompute.granularity == Recompute::Granularity::kSelective) {
    // Only what the job asks to keep on every stage comes here; the search chooses otherwise.
    violations.push_back({"flagscale_recompute_is_full", "--recompute-granularity",
                          "Recomputation by stage knows whole layers only (arguments.py:276)."});
  }
  return violations;
}

Violations CheckFlagScalePlan(const TransformerSpec& model, const TrainingSpec& training,
                              const Plan& plan) {
  TrainingSpec job = training;
  job.recompute = {};  // The plan's own recomputation counts, checked below.
  Violations violations = CheckFlagScaleJob(model, job);
  const auto add = [&](absl::string_view rule, std::string message) {
    violations.push_back({std::string(rule), std::string(kMeshes), std::move(message)});
  };
  const std::vector<StageAt> stages = StagesOf(plan);
  const Degrees& first = stages.front().mesh->degrees;
  const Degrees& last = stages.back().mesh->degrees;
  const int64_t samples = plan.micro_batch * first.dp;
  int64_t layers = 0;
  bool tensor_differs = false;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Degrees& degrees = stages[i].mesh->degrees;
    const StagePosition position = {.first = i == 0, .last = i + 1 == stages.size()};
    const absl::string_view rule = BrokenFlagScaleStageRule(model, degrees, position);
    if (!rule.empty()) add(rule, absl::StrCat("Stage ", i, " has ", Text(degrees), "."));
    if (!FlagScaleDegreesMix(model, first, degrees)) {
      add("flagscale_safe_experts_everywhere",
          absl::StrCat("Stage ", i, " has ep ", degrees.ep, " and stage 0 has ep ", first.ep, "."));
    }
    // arguments.py:105.
    if (samples % degrees.dp != 0) {
      add("flagscale_samples_divisible_by_dp",
          absl::StrCat("Stage ", i, " has dp ", degrees.dp, ", which does not divide the ", samples,
                       " samples of a step."));
    }
    // arguments.py:153.
    if (stages[i].stage->chunks.size() != 1) {
      add("flagscale_no_virtual_stages", absl::StrCat("Stage ", i, " has virtual stages."));
    }
    // arguments.py:276.
    if (stages[i].stage->recompute.granularity == Recompute::Granularity::kSelective) {
      add("flagscale_recompute_is_full", absl::StrCat("Stage ", i, " recomputes modules."));
    }
    tensor_differs = tensor_differs || degrees.tp != first.tp;
    layers += stages[i].stage->layers();
  }
  if (!FlagScaleEndsMatch(model, first, last)) {
    add("flagscale_ends_match", absl::StrCat("The ends share an embedding, but have ", Text(first),
                                             " and ", Text(last), "."));
  }
  // Sender and receiver cut tensors differently otherwise, and wait for ever.
  if (tensor_differs && !plan.sequence_parallel) {
    add("flagscale_safe_sequence_parallel",
        "Tensor parallel degrees differ without sequence parallelism.");
  }
  // arguments.py:166.
  if (layers != model.layers) {
    add("flagscale_layer_split",
        absl::StrCat("Stages hold ", layers, " of ", model.layers, " layers."));
  }
  // core/num_microbatches_calculator.py:340.
  if (samples * plan.micro_batches != plan.global_batch) {
    add("global_batch_divisible",
        absl::StrCat("The global batch of ", plan.global_batch, " is not ", plan.micro_batches,
                     " steps of ", samples, " samples."));
  }
  return violations;
}

}  // namespace hapmoe::plan
