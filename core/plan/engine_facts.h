// What Megatron-LM's rules ask about a job beyond its model, its training and its parallel sizes.
#ifndef HAPMOE_CORE_PLAN_ENGINE_FACTS_H_
#define HAPMOE_CORE_PLAN_ENGINE_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/training_spec.h"

namespace hapmoe::plan {

// Filled from a job's arguments. The defaults are those of a job that gives none of the options,
// except where a comment says otherwise, so that a job in fields needs no facts.
struct EngineFacts {
  // Batch.
  bool global_batch_given = true;  // False: one micro-batch for each data parallel rank.
  bool batch_schedule = false;
  bool decrease_batch = false;  // The global batch is rounded down until it divides.
  std::optional<int64_t> eval_micro_batch;
  std::optional<int64_t> eval_global_batch;

  // Shape.
  bool grouped_query_attention = false;  // As switched on, even where it has no effect.
  bool head_dim_given = true;            // In fields it always is.
  bool mtp_positions = true;             // Rotary or no position embedding.
  std::optional<int64_t> linear_key_heads;
  std::optional<int64_t> linear_value_heads;
  // Length of the list that says which layers hold experts; absent for a frequency.
  std::optional<int64_t> layer_pattern_length;

  // Precision.
  bool fp16_and_bf16 = false;
  std::string fp8_recipe = "delayed";

  // Context parallelism.
  std::vector<std::string> cp_communication = {"p2p"};
  std::vector<int64_t> hierarchical_cp;

  // Recomputation as written; recompute_options false for a job in fields.
  bool recompute_options = false;
  std::optional<model::Recompute::Method> recompute_method;
  std::optional<int64_t> recompute_layers;
  std::vector<std::string> unknown_recompute_modules;
  bool recompute_gdn_norm = false;
  bool recompute_mhc = false;
  bool recompute_moe_listed = false;  // In the list, without selective recomputation.
  bool moe_layer_recompute = false;
  bool distribute_saved_activations = false;

  // Experts.
  int64_t router_topk = 2;         // Checked even without experts.
  bool router_pre_softmax = true;  // In fields the router is taken to be sound.
  std::string router_score_function = "softmax";
  bool router_expert_bias = false;
  std::vector<std::string> load_balancing = {"aux_loss"};
  int64_t aux_loss_coefficients = 1;
  int64_t router_groups = 0;
  int64_t router_group_topk = 0;
  bool router_padding = false;  // To sizes that 8-bit products need.
  bool expert_width_given = false;
  // As written, with or without experts: the engine checks them all the same.
  bool pad_to_capacity = false;
  bool capacity_factor = false;
  bool grouped_gemm = false;
  bool shared_experts = false;
  bool dispatcher_given = false;
  bool deepep_flag = false;
  std::string flex_backend = "deepep";
  bool bias_dropout_fusion = true;

  // Offloading of activations.
  int64_t cpu_offload_layers = 0;
  bool fine_grained_offload = false;

  // Optimizer and overlap.
  bool fp8_parameter_gather = false;
  bool optimizer_offload = false;
  bool accumulate_fp32_given = false;
  bool delay_weight_gradient = false;
  bool megatron_fsdp = false;
  bool torch_fsdp2 = false;
  std::string cuda_graph = "none";
  std::vector<std::string> cuda_graph_modules;  // Empty: the whole layer.
  bool transformer_engine = true;
};

// The facts of a plan's run: launchers replace what a job itself writes about recomputation.
inline EngineFacts WithoutWrittenRecompute(EngineFacts facts) {
  facts.recompute_options = false;
  facts.unknown_recompute_modules.clear();
  facts.moe_layer_recompute = false;
  facts.distribute_saved_activations = false;
  return facts;
}

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_ENGINE_FACTS_H_
