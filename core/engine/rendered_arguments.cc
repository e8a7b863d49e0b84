#include "core/engine/rendered_arguments.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/engine/option_values.h"
#include "core/plan/pipeline_layout.h"

namespace hapmoe::engine {
namespace {

using model::Recompute;

// Options that the plan speaks for, whether or not it sets them.
const absl::flat_hash_set<absl::string_view>& ReplacedOptions() {
  static const auto& dests = *new absl::flat_hash_set<absl::string_view>{
      // Degrees.
      "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
      "expert_model_parallel_size", "expert_tensor_parallel_size", "use_tp_pp_dp_mapping",
      "sequence_parallel",
      // Layout.
      "pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage",
      "num_virtual_stages_per_pipeline_rank", "decoder_first_pipeline_num_layers",
      "decoder_last_pipeline_num_layers", "account_for_embedding_in_pipeline_split",
      "account_for_loss_in_pipeline_split", "microbatch_group_size_per_vp_stage",
      // Recomputation.
      "recompute_activations", "recompute_granularity", "recompute_method", "recompute_num_layers",
      "recompute_modules", "moe_layer_recompute", "distribute_saved_activations",
      // Set by the launcher for each process.
      "local_rank"};
  return dests;
}

std::vector<const plan::Stage*> StagesOf(const plan::Plan& plan) {
  std::vector<const plan::Stage*> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) stages.push_back(&stage);
  }
  return stages;
}

// Recomputation that drops nothing is none.
bool Recomputes(const Recompute& recompute) {
  switch (recompute.granularity) {
    case Recompute::Granularity::kNone:
      return false;
    case Recompute::Granularity::kSelective:
      return recompute.modules != 0;
    case Recompute::Granularity::kFull:
      return recompute.num_layers > 0;
  }
  return false;
}

bool IsFull(const Recompute& recompute) {
  return Recomputes(recompute) && recompute.granularity == Recompute::Granularity::kFull;
}

bool IsSelective(const Recompute& recompute, model::RecomputeModule module) {
  return Recomputes(recompute) && recompute.granularity == Recompute::Granularity::kSelective &&
         (recompute.modules & module) != 0;
}

// What decides which of the job's options Megatron-LM accepts under the plan.
struct Circumstances {
  Circumstances(const Arguments& the_arguments, const plan::Plan& plan)
      : arguments(the_arguments),
        degrees(plan.meshes.front().degrees),
        stages(plan.pipeline_stages()),
        virtual_stages(plan.virtual_stages()),
        micro_batch(plan.micro_batch),
        global_batch(plan.global_batch) {
    // MoE layers with tp > 1 train only with sequence parallelism (moe_layer.py:636-640).
    sequence_parallel = degrees.tp > 1 && (plan.sequence_parallel || Integer("num_experts", 0) > 0);
    for (const plan::Stage* stage : StagesOf(plan)) {
      recomputes |= Recomputes(stage->recompute);
      full |= IsFull(stage->recompute);
      moe |= IsSelective(stage->recompute, model::kRecomputeMoe);
    }
  }

  bool Has(absl::string_view dest) const { return arguments.Find(dest) != nullptr; }

  int64_t Integer(absl::string_view dest, int64_t otherwise) const {
    const Argument* argument = arguments.Find(dest);
    int64_t value = otherwise;
    if (argument == nullptr || argument->values.empty()) return otherwise;
    return ParsePythonInt(argument->values.front(), &value) ? value : otherwise;
  }

  const Arguments& arguments;
  const plan::Degrees& degrees;
  int64_t stages;
  int64_t virtual_stages;
  int64_t micro_batch;
  int64_t global_batch;
  bool sequence_parallel = false;
  bool recomputes = false;  // Some stage does.
  bool full = false;        // Some stage recomputes whole layers.
  bool moe = false;         // Some stage recomputes its MoE modules.
};

bool SplitsContextOtherwise(const Circumstances& now) {
  const Argument* sizes = now.arguments.Find("hierarchical_context_parallel_sizes");
  if (sizes == nullptr) return false;
  int64_t product = 1;
  for (const std::string& text : sizes->values) {
    int64_t size = 0;
    if (!ParsePythonInt(text, &size) || size < 1 || size > now.degrees.cp) return true;
    product *= size;
    if (product > now.degrees.cp) return true;
  }
  return product != now.degrees.cp;
}

// True if CUDA graphs are captured layer by layer.
bool GraphsLayers(const Circumstances& now) {
  if (now.Has("enable_cuda_graph") || now.Has("external_cuda_graph")) return true;
  const Argument* kind = now.arguments.Find("cuda_graph_impl");
  return kind != nullptr && !absl::c_linear_search(kind->values, "none") &&
         !absl::c_linear_search(kind->values, "full_iteration");
}

std::optional<std::string> ExpertOverlapRefused(const Circumstances& now) {
  if (now.degrees.ep == 1) return "Overlapping expert communication needs ep > 1.";
  if (now.stages > 1 && now.virtual_stages == 1) {
    return "Overlapping expert communication with pp > 1 needs an interleaved schedule.";
  }
  if (now.full) return "Overlapping expert communication excludes full recomputation.";
  if (now.moe) return "Overlapping expert communication excludes recomputing MoE modules.";
  return std::nullopt;
}

// Why Megatron-LM refuses an option of the job under the plan (megatron/training/arguments.py,
// validate_args; megatron/core/transformer/transformer_config.py and model_parallel_config.py,
// __post_init__), or nothing. Only options that depend on what the plan replaces are looked at.
std::optional<std::string> RefusedBecause(const Argument& argument, const Circumstances& now) {
  const absl::string_view dest = argument.option->dest;
  if (absl::StartsWith(dest, "cpu_offloading_")) {
    if (now.Integer("cpu_offloading_num_layers", 0) <= 0) return std::nullopt;
    if (now.stages > 1) return "Layers are offloaded to host memory only with pp = 1.";
    if (now.recomputes) return "Layers are not offloaded to host memory beside recomputation.";
  } else if (dest == "tp_comm_overlap") {
    if (!now.sequence_parallel) return "It needs sequence parallelism, which needs tp > 1.";
  } else if (dest == "hierarchical_context_parallel_sizes") {
    if (SplitsContextOtherwise(now)) {
      return absl::StrCat("The product of its sizes is not cp = ", now.degrees.cp, ".");
    }
  } else if (dest == "cp_comm_type") {
    if (absl::c_linear_search(argument.values, "a2a+p2p") && SplitsContextOtherwise(now)) {
      return "a2a+p2p needs --hierarchical-context-parallel-sizes, which is left out.";
    }
  } else if (dest == "hybrid_context_parallel") {
    if (now.stages > 1) return "Hybrid context parallelism needs pp = 1.";
  } else if (dest == "overlap_moe_expert_parallel_comm") {
    return ExpertOverlapRefused(now);
  } else if (dest == "delay_wgrad_compute" || dest == "ep_overlap_early_attn_memory_release") {
    if (ExpertOverlapRefused(now).has_value()) {
      return "It needs --overlap-moe-expert-parallel-comm, which is left out.";
    }
  } else if (dest == "overlap_p2p_comm") {
    if (now.virtual_stages > 1 && now.stages <= 2) {
      return "An interleaved schedule without overlap needs pp > 2.";
    }
  } else if (dest == "overlap_p2p_comm_warmup_flush") {
    if (now.virtual_stages == 1) return "It needs an interleaved schedule.";
  } else if (dest == "defer_embedding_wgrad_compute" || dest == "wgrad_deferral_limit" ||
             dest == "inference_batch_times_seqlen_threshold") {
    if (now.stages == 1) return "It needs pp > 1.";
  } else if (dest == "tensor_parallel_num_weight_shards" ||
             dest == "expert_tensor_parallel_num_weight_shards") {
    return "Weights are sharded by the plan's tp and etp.";
  } else if (dest == "eval_global_batch_size" || dest == "eval_micro_batch_size") {
    const int64_t micro = now.Integer("eval_micro_batch_size", now.micro_batch);
    const int64_t global = now.Integer("eval_global_batch_size", now.global_batch);
    if (micro < 1 || micro > global || global % micro != 0 ||
        global / micro % now.degrees.dp != 0) {
      return absl::StrCat("The evaluation batch is not a multiple of its micro-batch times dp = ",
                          now.degrees.dp, ".");
    }
  } else if (absl::StartsWith(dest, "cuda_graph_") || dest == "enable_cuda_graph" ||
             dest == "external_cuda_graph") {
    if (now.full && GraphsLayers(now)) return "CUDA graphs of layers exclude full recomputation.";
  }
  return std::nullopt;
}

Words WordsOf(const Argument& argument) {
  if (argument.values.size() == 1 && absl::StartsWith(argument.values.front(), "-")) {
    return {absl::StrCat(argument.flag, "=", argument.values.front())};
  }
  Words words = {argument.flag};
  words.insert(words.end(), argument.values.begin(), argument.values.end());
  return words;
}

Words RecomputeWords(const Recompute& recompute, bool distribute) {
  if (!Recomputes(recompute)) return {};
  if (recompute.granularity == Recompute::Granularity::kFull) {
    Words words = {"--recompute-granularity",
                   "full",
                   "--recompute-method",
                   recompute.method == Recompute::Method::kUniform ? "uniform" : "block",
                   "--recompute-num-layers",
                   absl::StrCat(recompute.num_layers)};
    if (distribute) words.push_back("--distribute-saved-activations");
    return words;
  }
  Words words = {"--recompute-granularity", "selective", "--recompute-modules"};
  for (const auto& [module, name] : model::kRecomputeModuleNames) {
    if ((recompute.modules & module) != 0) words.push_back(name);
  }
  return words;
}

// What the plan sets beside recomputation.
std::vector<Words> PlanWords(const Circumstances& now, const plan::Plan& plan) {
  std::vector<Words> words;
  const auto set = [&words](absl::string_view flag, int64_t value) {
    words.push_back({std::string(flag), absl::StrCat(value)});
  };
  set("--tensor-model-parallel-size", now.degrees.tp);
  set("--pipeline-model-parallel-size", now.stages);
  set("--context-parallel-size", now.degrees.cp);
  if (now.Integer("num_experts", 0) > 0) {
    set("--expert-model-parallel-size", now.degrees.ep);
    // Left out it would be tp.
    set("--expert-tensor-parallel-size", now.degrees.etp);
  }
  if (now.stages > 1) {
    words.push_back({"--pipeline-model-parallel-layout", LayoutArgument(plan)});
    if (now.virtual_stages > 1 && plan.interleaving_group > 0 &&
        plan.interleaving_group != now.stages) {
      set("--microbatch-group-size-per-virtual-pipeline-stage", plan.interleaving_group);
    }
    if (plan.rank_order == plan::RankOrder::kDataOutermost) {
      words.push_back({"--use-tp-pp-dp-mapping"});
    }
  }
  if (now.sequence_parallel) words.push_back({"--sequence-parallel"});
  if (now.Integer("micro_batch_size", 0) != plan.micro_batch) {
    set("--micro-batch-size", plan.micro_batch);
  }
  if (SetsDispatcher(now.arguments, plan)) {
    words.push_back({"--moe-token-dispatcher-type", model::DispatcherName(*plan.dispatcher)});
  }
  // Left out it would follow dp.
  if (now.Integer("global_batch_size", 0) != plan.global_batch &&
      !now.Has("step_batch_size_schedule")) {
    set("--global-batch-size", plan.global_batch);
  }
  return words;
}

}  // namespace

bool SetsDispatcher(const Arguments& arguments, const plan::Plan& plan) {
  return plan.dispatcher.has_value() && arguments.Find("num_experts") != nullptr &&
         OptionValues(arguments, nullptr).Text("moe_token_dispatcher_type") !=
             model::DispatcherName(*plan.dispatcher);
}

bool IsReplacedByPlan(absl::string_view dest) { return ReplacedOptions().contains(dest); }

JobOptions OptionsThatStay(const Arguments& arguments, const plan::Plan& plan) {
  const Circumstances now(arguments, plan);
  JobOptions options;
  for (const Argument& argument : arguments.all()) {
    const absl::string_view dest = argument.option->dest;
    if (IsReplacedByPlan(dest)) continue;
    if (dest == "micro_batch_size" && now.Integer(dest, 0) != plan.micro_batch) continue;
    if (dest == "moe_token_dispatcher_type" && SetsDispatcher(arguments, plan)) continue;
    if (dest == "global_batch_size" && now.Integer(dest, 0) != plan.global_batch) continue;
    if (std::optional<std::string> reason = RefusedBecause(argument, now)) {
      options.withdrawn.push_back({argument.flag, *std::move(reason)});
      continue;
    }
    options.kept.push_back(&argument);
  }
  return options;
}

Argument ArgumentOf(const Words& words) {
  Violations violations;
  return Arguments::Parse(words, violations).all().front();
}

PlannedArguments PlanArguments(const Arguments& arguments, const plan::Plan& plan) {
  const Circumstances now(arguments, plan);
  JobOptions options = OptionsThatStay(arguments, plan);
  PlannedArguments result;
  for (const Argument* argument : options.kept) result.job.push_back(WordsOf(*argument));
  result.withdrawn = std::move(options.withdrawn);
  result.plan = PlanWords(now, plan);
  const bool distribute =
      now.Has("distribute_saved_activations") && now.degrees.tp > 1 && !now.sequence_parallel;
  for (const plan::Stage* stage : StagesOf(plan)) {
    Words words = RecomputeWords(stage->recompute, distribute);
    const auto known = absl::c_find(result.recompute, words);
    result.stage_recompute.push_back(known - result.recompute.begin());
    if (known == result.recompute.end()) result.recompute.push_back(std::move(words));
  }
  return result;
}

std::vector<std::string> RenderedArguments(const Arguments& arguments, const plan::Plan& plan,
                                           int64_t stage) {
  const PlannedArguments planned = PlanArguments(arguments, plan);
  std::vector<std::string> words;
  for (const std::vector<Words>* part : {&planned.job, &planned.plan}) {
    for (const Words& option : *part) words.insert(words.end(), option.begin(), option.end());
  }
  const Words& recompute = planned.recompute[planned.stage_recompute[stage]];
  words.insert(words.end(), recompute.begin(), recompute.end());
  return words;
}

std::string LayoutArgument(const plan::Plan& plan) {
  std::vector<plan::Stage> stages;
  for (const plan::Stage* stage : StagesOf(plan)) {
    stages.push_back(*stage);
    for (plan::Chunk& chunk : stages.back().chunks) chunk.embedding = chunk.loss = false;
  }
  // The engine builds them there, whatever the layout says.
  stages.front().chunks.front().embedding = true;
  stages.back().chunks.back().loss = true;
  const std::string letters = plan::PipelineLayoutString(stages);
  std::string layout;
  for (size_t i = 0; i < letters.size();) {
    size_t end = i + 1;
    while (end < letters.size() && letters[end] == letters[i] && letters[i] != '|') ++end;
    layout.push_back(letters[i]);
    if (end - i > 1) absl::StrAppend(&layout, "*", end - i);
    i = end;
  }
  return layout;
}

}  // namespace hapmoe::engine
