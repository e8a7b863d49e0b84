// How the model is trained, and its parallel sizes, from the options.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/engine/megatron_job_reading.h"

namespace hapmoe::engine {
namespace {

constexpr int64_t kMaxMicroBatch = 1 << 16;
constexpr int64_t kMaxGlobalBatch = 1 << 20;
constexpr int64_t kMaxDegree = 1 << 20;
constexpr int64_t kMaxLayerCount = 1000000;

using model::Recompute;

int64_t Bytes(const std::string& type) {
  if (type == "fp32") return 4;
  return type == "fp8" ? 1 : 2;
}

void ReadBatch(OptionValues& values, MegatronJob& job) {
  model::TrainingSpec& training = job.training;
  plan::EngineFacts& facts = job.facts;
  training.micro_batch = values.RequiredIntIn("micro_batch_size", 1, kMaxMicroBatch).value_or(1);
  facts.global_batch_given = values.Has("global_batch_size");
  training.global_batch = training.micro_batch;
  if (facts.global_batch_given) {
    training.global_batch =
        values.IntIn("global_batch_size", 1, kMaxGlobalBatch).value_or(training.micro_batch);
  }
  facts.batch_schedule = values.Has("step_batch_size_schedule");
  facts.decrease_batch = values.Flag("decrease_batch_size_if_needed");
  facts.eval_micro_batch = values.IntIn("eval_micro_batch_size", 1, kMaxMicroBatch);
  facts.eval_global_batch = values.IntIn("eval_global_batch_size", 0, kMaxGlobalBatch);
  if (values.Has("rampup_batch_size")) {
    job.notes.push_back("This version of Megatron-LM ignores --rampup-batch-size.");
  }
}

void ReadPrecision(OptionValues& values, MegatronJob& job) {
  model::TrainingSpec& training = job.training;
  plan::EngineFacts& facts = job.facts;
  const bool bf16 = values.Flag("bf16"), fp16 = values.Flag("fp16");
  facts.fp16_and_bf16 = bf16 && fp16;
  training.precision = bf16   ? model::Precision::kBf16
                       : fp16 ? model::Precision::kFp16
                              : model::Precision::kFp32;
  training.fp8 = values.Has("fp8");
  facts.fp8_recipe = values.Text("fp8_recipe");
  facts.fp8_parameter_gather = values.Flag("fp8_param_gather");
  training.fp8_parameters = training.fp8 && facts.fp8_parameter_gather;
  training.fp32_residual = values.Flag("fp32_residual_connection");
  // Gradients are summed in fp32 with bf16 unless the job says otherwise.
  facts.accumulate_fp32_given = values.Flag("accumulate_allreduce_grads_in_fp32");
  bool fp32 = facts.accumulate_fp32_given || training.precision == model::Precision::kFp32;
  if (bf16) {
    fp32 = !values.Flag("grad_reduce_in_bf16") &&
           (facts.accumulate_fp32_given || values.Text("main_grads_dtype") == "fp32");
  }
  training.gradient_bytes = fp32 ? 4 : 2;
}

void ReadOptimizer(OptionValues& values, MegatronJob& job) {
  model::Optimizer& optimizer = job.training.optimizer;
  plan::EngineFacts& facts = job.facts;
  optimizer.name = values.Text("optimizer");
  optimizer.distributed = values.Flag("use_distributed_optimizer") || optimizer.name == "dist_muon";
  optimizer.instances =
      values.IntIn("num_distributed_optimizer_instances", 1, kMaxDegree).value_or(1);
  optimizer.precision_aware = values.Flag("use_precision_aware_optimizer");
  optimizer.main_gradient_bytes = Bytes(values.Text("main_grads_dtype"));
  optimizer.main_parameter_bytes = Bytes(values.Text("main_params_dtype"));
  optimizer.first_moment_bytes = Bytes(values.Text("exp_avg_dtype"));
  optimizer.second_moment_bytes = Bytes(values.Text("exp_avg_sq_dtype"));
  if (optimizer.name == "sgd") {
    if (values.Float("sgd_momentum").value_or(0.9) == 0) optimizer.first_moment_bytes = 0;
    optimizer.second_moment_bytes = 0;
  } else if (optimizer.name == "lion") {
    optimizer.second_moment_bytes = 0;
  } else if (optimizer.name != "adam") {
    job.notes.push_back(
        absl::StrCat("The optimizer ", optimizer.name,
                     " is costed with the states of adam, and its own arithmetic is not counted."));
  }
  facts.optimizer_offload = values.Flag("optimizer_cpu_offload");
  if (facts.optimizer_offload) {
    optimizer.offload_ratio = values.FloatIn("optimizer_offload_fraction", 0, 1).value_or(1);
  }
  optimizer.clips_gradient = values.Float("clip_grad").value_or(1) > 0;
}

void ReadOverlap(OptionValues& values, MegatronJob& job) {
  model::Overlap& overlap = job.training.overlap;
  overlap.gradient_reduce = values.Flag("overlap_grad_reduce");
  overlap.parameter_gather = values.Flag("overlap_param_gather");
  overlap.tensor_parallel = values.Flag("tp_comm_overlap");
  overlap.pipeline = values.Flag("overlap_p2p_comm");
  overlap.expert_parallel = values.Flag("overlap_moe_expert_parallel_comm");
  overlap.shared_expert = values.Flag("moe_shared_expert_overlap");
  job.facts.delay_weight_gradient = values.Flag("delay_wgrad_compute");
  job.facts.megatron_fsdp = values.Flag("use_megatron_fsdp");
  job.facts.torch_fsdp2 = values.Flag("use_torch_fsdp2");
  job.facts.cuda_graph = values.Text("cuda_graph_impl");
  for (const std::string& module : values.List("cuda_graph_modules")) {
    // The older word for the whole layer.
    if (module != "full") job.facts.cuda_graph_modules.push_back(module);
  }
}

void ReadRecomputeModules(const std::vector<std::string>& names, MegatronJob& job) {
  // Known to the engine; no effect on models that can be planned.
  static constexpr absl::string_view kWithoutEffect[] = {"gdn_norm_out", "gdp_in_proj", "gdp_qkv",
                                                         "mhc"};
  for (const std::string& name : names) {
    const auto* found = std::find_if(std::begin(model::kRecomputeModuleNames),
                                     std::end(model::kRecomputeModuleNames),
                                     [&](const auto& module) { return name == module.second; });
    if (found != std::end(model::kRecomputeModuleNames)) {
      job.training.recompute.modules |= found->first;
    } else if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), name) ==
                   std::end(kWithoutEffect) &&
               job.facts.unknown_recompute_modules.size() < 8) {
      job.facts.unknown_recompute_modules.push_back(Quoted(name));
    }
    job.facts.recompute_gdn_norm |= name == "gdn_norm_out";
    job.facts.recompute_mhc |= name == "mhc";
  }
}

void ReadRecompute(OptionValues& values, MegatronJob& job) {
  Recompute& recompute = job.training.recompute;
  plan::EngineFacts& facts = job.facts;
  const std::string granularity =
      values.Flag("recompute_activations") ? "selective" : values.Text("recompute_granularity");
  if (values.Has("recompute_method")) {
    facts.recompute_method = values.Text("recompute_method") == "uniform"
                                 ? Recompute::Method::kUniform
                                 : Recompute::Method::kBlock;
  }
  facts.recompute_layers = values.IntIn("recompute_num_layers", 0, kMaxLayerCount);
  facts.recompute_options = !granularity.empty();
  facts.moe_layer_recompute = values.Flag("moe_layer_recompute");
  facts.distribute_saved_activations = values.Flag("distribute_saved_activations");
  if (granularity == "full") {
    recompute.granularity = Recompute::Granularity::kFull;
    recompute.method = facts.recompute_method.value_or(Recompute::Method::kBlock);
    recompute.num_layers = facts.recompute_layers.value_or(0);
  } else if (granularity == "selective" || facts.moe_layer_recompute) {
    recompute.granularity = Recompute::Granularity::kSelective;
  }
  std::vector<std::string> modules = values.List("recompute_modules");
  if (!values.Has("recompute_modules")) modules = {"core_attn"};
  if (facts.moe_layer_recompute) modules.push_back("moe");
  if (recompute.granularity == Recompute::Granularity::kSelective) {
    ReadRecomputeModules(modules, job);
  } else if (job.training.overlap.expert_parallel) {
    // The engine looks at the list whether or not it takes effect.
    facts.recompute_moe_listed = std::find(modules.begin(), modules.end(), "moe") != modules.end();
  }
}

// What evens out the load of experts. Biases join whatever loss there is.
model::Balancing BalancingOf(const OptionValues& values, const plan::EngineFacts& facts) {
  if (values.Flag("moe_router_force_load_balancing")) return model::Balancing::kForced;
  if (facts.router_expert_bias) return model::Balancing::kExpertBias;
  const std::vector<std::string> coefficients = values.List("moe_aux_loss_coeff");
  const bool weighted = absl::c_any_of(coefficients, [](const std::string& text) {
    double coefficient = 0;
    return absl::SimpleAtod(text, &coefficient) && coefficient > 0;
  });
  for (const std::string& type : facts.load_balancing) {
    if (type == "sinkhorn" || type == "quantile_balancing") return model::Balancing::kSinkhorn;
    if (type != "none" && weighted) return model::Balancing::kAuxiliaryLoss;
  }
  return model::Balancing::kNone;
}

void ReadDispatch(OptionValues& values, MegatronJob& job) {
  plan::EngineFacts& facts = job.facts;
  job.training.dispatcher = model::DispatcherNamed(values.Text("moe_token_dispatcher_type"))
                                .value_or(model::Dispatcher::kAllGather);
  facts.dispatcher_given = values.Has("moe_token_dispatcher_type");
  facts.deepep_flag = values.Flag("moe_enable_deepep");
  facts.flex_backend = values.Text("moe_flex_dispatcher_backend");
  facts.bias_dropout_fusion = values.Flag("bias_dropout_fusion");
  facts.router_pre_softmax = values.Flag("moe_router_pre_softmax");
  facts.router_score_function = values.Text("moe_router_score_function");
  facts.router_expert_bias = values.Flag("moe_router_enable_expert_bias");
  facts.load_balancing = values.List("moe_router_load_balancing_type");
  facts.aux_loss_coefficients = static_cast<int64_t>(values.List("moe_aux_loss_coeff").size());
  facts.router_groups = values.IntIn("moe_router_num_groups", 0, kMaxDegree).value_or(0);
  facts.router_group_topk = values.IntIn("moe_router_group_topk", 0, kMaxDegree).value_or(0);
  facts.router_padding = values.Flag("moe_router_padding_for_fp8") ||
                         values.Flag("moe_router_padding_for_quantization");
  job.training.balancing = BalancingOf(values, facts);
}

void ReadOffload(OptionValues& values, MegatronJob& job) {
  job.facts.cpu_offload_layers =
      values.IntIn("cpu_offloading_num_layers", 0, kMaxLayerCount).value_or(0);
  job.facts.fine_grained_offload = values.Flag("fine_grained_activation_offloading");
}

}  // namespace

void ReadTraining(OptionValues& values, MegatronJob& job) {
  model::TrainingSpec& training = job.training;
  ReadBatch(values, job);
  ReadPrecision(values, job);
  ReadOptimizer(values, job);
  ReadOverlap(values, job);
  ReadRecompute(values, job);
  ReadDispatch(values, job);
  ReadOffload(values, job);
  training.sequence_parallel = values.Flag("sequence_parallel");
  training.fused_cross_entropy = values.Flag("cross_entropy_loss_fusion");
  training.cross_entropy_in_place =
      training.fused_cross_entropy && values.Text("cross_entropy_fusion_impl") == "te";
  training.attention_dropout = values.FloatIn("attention_dropout", 0, 1).value_or(0.1);
  training.hidden_dropout = values.FloatIn("hidden_dropout", 0, 1).value_or(0.1);
  const std::string graphs = values.Text("cuda_graph_impl");
  if (graphs == "full_iteration") training.graphs = model::Graphs::kAll;
  if (graphs == "local" || graphs == "transformer_engine" || values.Flag("enable_cuda_graph") ||
      values.Flag("external_cuda_graph")) {
    training.graphs = model::Graphs::kAllButExperts;
  }
  const std::string implementation = values.Text("transformer_impl");
  const std::string backend = values.Text("attention_backend");
  job.facts.transformer_engine = implementation == "transformer_engine";
  training.keeps_gradient_placeholders =
      job.facts.transformer_engine && values.Flag("gradient_accumulation_fusion");
  // The local implementation keeps the scores unless it is told to use flash attention.
  training.flash_attention = implementation == "local" ? values.Flag("use_flash_attn")
                                                       : backend != "unfused" && backend != "local";
}

void ReadParallel(OptionValues& values, MegatronJob& job) {
  plan::ParallelSpec& parallel = job.parallel;
  const auto degree = [&values](absl::string_view dest) {
    return values.IntIn(dest, 1, kMaxDegree).value_or(1);
  };
  parallel.tp = degree("tensor_model_parallel_size");
  parallel.pp = degree("pipeline_model_parallel_size");
  parallel.cp = degree("context_parallel_size");
  parallel.ep = degree("expert_model_parallel_size");
  parallel.etp = values.IntIn("expert_tensor_parallel_size", 1, kMaxDegree);
  if (values.Has("pipeline_model_parallel_layout")) {
    parallel.layout = values.Text("pipeline_model_parallel_layout");
  }
  parallel.layers_per_virtual_stage =
      values.IntIn("num_layers_per_virtual_pipeline_stage", 1, kMaxLayerCount);
  parallel.virtual_stages_per_rank =
      values.IntIn("num_virtual_stages_per_pipeline_rank", 1, kMaxLayerCount);
  parallel.first_stage_layers =
      values.IntIn("decoder_first_pipeline_num_layers", -kMaxLayerCount, kMaxLayerCount);
  parallel.last_stage_layers =
      values.IntIn("decoder_last_pipeline_num_layers", -kMaxLayerCount, kMaxLayerCount);
  parallel.account_for_embedding = values.Flag("account_for_embedding_in_pipeline_split");
  parallel.account_for_loss = values.Flag("account_for_loss_in_pipeline_split");
  parallel.interleaving_group =
      values.IntIn("microbatch_group_size_per_vp_stage", 0, kMaxGlobalBatch);
  parallel.overlap_p2p = values.Flag("overlap_p2p_comm");
  parallel.data_outermost = values.Flag("use_tp_pp_dp_mapping");
  job.facts.cp_communication = values.List("cp_comm_type");
  if (values.Has("experimental_attention_variant")) {
    job.facts.linear_key_heads = values.Int("linear_num_key_heads");
    job.facts.linear_value_heads = values.Int("linear_num_value_heads");
  }
  for (const std::string& size : values.List("hierarchical_context_parallel_sizes")) {
    int64_t value = 0;
    if (ParsePythonInt(size, &value)) job.facts.hierarchical_cp.push_back(value);
  }
}

}  // namespace hapmoe::engine
