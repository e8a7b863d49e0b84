#include "core/plan/engine_traits.h"

#include "absl/strings/str_cat.h"

namespace hapmoe::plan {

absl::Span<const EngineTraits> Engines() {
  // Not constexpr: under sanitizers GCC takes no name's address for a constant.
  static const EngineTraits kEngines[] = {
      {.name = kMegatronLm, .space = kMegatronLm},
      // Its processes read overrides of their own, so stages may differ in recomputation
      // (Megatron-Bridge 067f987d, scripts/training/run_recipe.py, compares none).
      {.name = kMegatronBridge, .space = kMegatronLm},
      // The same (Primus fd1eeabb, primus/core/runtime/train_runtime.py).
      {.name = kPrimus, .space = kMegatronLm},
      // MindSpeed-LLM c77308a1: --num-layer-list excludes virtual stages
      // (mindspeed_llm/features_manager/pipeline_parallel/num_layer_list.py:31); modules are
      // recomputed by options of its own (docs, recompute_relative).
      {.name = kMindSpeedLlm,
       .space = kMindSpeedLlm,
       .recomputes_modules = false,
       .max_virtual_stages = 1,
       .restriction =
           "recomputation of whole layers; experts' tensors on one rank or on tp ranks; no "
           "stage of dense layers alone beside those with experts"},
      {.name = kFlagScale,
       .space = kFlagScale,
       .degrees_per_stage = true,
       .recomputes_modules = false,
       .max_virtual_stages = 1,
       .starts_other_hosts = true},
  };
  return kEngines;
}

const EngineTraits* FindEngine(absl::string_view name) {
  for (const EngineTraits& engine : Engines()) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

absl::string_view BrokenEngineRule(const EngineTraits& engine, const model::TransformerSpec& model,
                                   const Degrees& degrees, int64_t stages, int64_t virtual_stages) {
  if (engine.max_virtual_stages > 0 && virtual_stages > engine.max_virtual_stages) {
    return "engine_virtual_stages";
  }
  if (engine.space != kMindSpeedLlm || !model.moe.has_value()) return "";
  // mindspeed_llm/tasks/checkpoint/convert_mg2hf.py:122, and its scripts.
  if (degrees.etp != 1 && degrees.etp != degrees.tp) return "mindspeed_expert_tensor_parallel";
  // mindspeed_llm/features_manager/transformer/transformer_block.py:17.
  const int64_t dense = model.first_moe_layer();
  if (stages > 1 && dense > 0 && dense >= model.layers / stages) {
    return "mindspeed_dense_layers_fill_a_stage";
  }
  return "";
}

Violations CheckEnginePlan(const EngineTraits& engine, const model::TransformerSpec& model,
                           const Plan& plan) {
  Violations violations;
  const Degrees& degrees = plan.meshes.front().degrees;
  const absl::string_view rule =
      BrokenEngineRule(engine, model, degrees, plan.pipeline_stages(), plan.virtual_stages());
  if (!rule.empty()) {
    violations.push_back({std::string(rule), "plan",
                          absl::StrCat(engine.name, " does not run tp ", degrees.tp, ", etp ",
                                       degrees.etp, " on ", plan.pipeline_stages(), " stages with ",
                                       plan.virtual_stages(), " virtual stages of each.")});
  }
  if (engine.recomputes_modules) return violations;
  for (const Mesh& mesh : plan.meshes) {
    for (const Stage& stage : mesh.stages) {
      if (stage.recompute.granularity != model::Recompute::Granularity::kSelective) continue;
      violations.push_back({"recompute_is_full", "plan",
                            absl::StrCat(engine.name, " recomputes whole layers only.")});
      return violations;
    }
  }
  return violations;
}

}  // namespace hapmoe::plan
