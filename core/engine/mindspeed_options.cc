#include "core/engine/mindspeed_options.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/engine/layer_pattern.h"

namespace hapmoe::engine {
namespace {

bool IsMissing(absl::string_view flag) {
  static const auto& missing = *new absl::flat_hash_set<absl::string_view>{
#include "core/engine/mindspeed_missing_options.inc"
  };
  return missing.contains(flag);
}

// The spelling that MindSpeed-LLM knows, preferably as written; empty for none. All spellings of an
// option that switches say the same here.
std::string KnownFlag(const MegatronOption& option, absl::string_view flag) {
  if (!IsMissing(flag)) return std::string(flag);
  for (const absl::string_view spelling : absl::StrSplit(option.flags, ' ')) {
    if (!IsMissing(spelling)) return std::string(spelling);
  }
  return "";
}

std::string Text(const Arguments& arguments, absl::string_view dest) {
  const Argument* argument = arguments.Find(dest);
  return argument == nullptr || argument->values.empty() ? "" : argument->values.front();
}

// Dense layers in front of the layers with experts, 0 where all have them; nothing where the option
// says something else.
std::optional<int64_t> DenseLayersInFront(const std::string& text) {
  int64_t frequency = 0;
  if (ParsePythonInt(text, &frequency)) {
    return frequency == 1 ? std::optional<int64_t>(0) : std::nullopt;
  }
  const auto layers = EvaluateLayerPattern(text);
  if (!layers.has_value()) return std::nullopt;
  const auto first = std::find(layers->begin(), layers->end(), 1);
  if (first == layers->end() || std::find(first, layers->end(), 0) != layers->end()) {
    return std::nullopt;
  }
  return first - layers->begin();
}

// mindspeed_llm/features_manager/context_parallel; the algorithm that exchanges as Megatron-LM's
// kind does.
absl::string_view ContextAlgorithm(absl::string_view kind) {
  if (kind.empty() || kind == "p2p") return "megatron_cp_algo";
  return kind == "a2a" ? "ulysses_cp_algo" : "";
}

bool IsReplaced(absl::string_view dest) {
  return dest == "cp_comm_type" || dest == "transformer_impl" || dest == "moe_layer_freq" ||
         dest == "tokenizer_type" || dest == "tokenizer_model";
}

// What MindSpeed-LLM's own scripts (examples/mcore) run every job with, where the job does not say
// so itself.
std::vector<Words> Additions(const Arguments& arguments, const plan::Plan& plan) {
  const auto has = [&arguments](absl::string_view dest) { return arguments.Find(dest) != nullptr; };
  std::vector<Words> words = {{"--transformer-impl", "local"}};
  if (!has("use_flash_attn")) words.push_back({"--use-flash-attn"});
  if (!has("gradient_accumulation_fusion")) words.push_back({"--no-gradient-accumulation-fusion"});
  if (!has("ckpt_format")) words.push_back({"--ckpt-format", "torch"});
  if (has("swiglu")) words.push_back({"--use-fused-swiglu"});
  if (Text(arguments, "normalization") == "RMSNorm") words.push_back({"--use-fused-rmsnorm"});
  if (Text(arguments, "position_embedding_type") == "rope") {
    words.push_back({"--use-fused-rotary-pos-emb"});
  }
  if (plan.meshes.front().degrees.cp > 1) {
    words.push_back({"--context-parallel-algo",
                     std::string(ContextAlgorithm(Text(arguments, "cp_comm_type")))});
  }
  const std::string pattern = Text(arguments, "moe_layer_freq");
  if (has("num_experts") && !pattern.empty()) {
    const int64_t dense = DenseLayersInFront(pattern).value_or(0);
    if (dense > 0) words.push_back({"--first-k-dense-replace", absl::StrCat(dense)});
    words.push_back({"--moe-layer-freq", "1"});
  }
  const std::string tokenizer = Text(arguments, "tokenizer_type");
  const std::string model = Text(arguments, "tokenizer_model");
  const bool hugging_face = tokenizer == "HuggingFaceTokenizer";
  if (!tokenizer.empty()) {
    words.push_back({"--tokenizer-type", hugging_face ? "PretrainedFromHF" : tokenizer});
  }
  if (!model.empty()) {
    const absl::string_view flag = hugging_face ? "--tokenizer-name-or-path" : "--tokenizer-model";
    if (absl::StartsWith(model, "-")) {
      words.push_back({absl::StrCat(flag, "=", model)});
    } else {
      words.push_back({std::string(flag), model});
    }
  }
  return words;
}

// mindspeed_llm/features_manager/pipeline_parallel/num_layer_list.py; nothing where Megatron-LM
// splits so by itself.
Words LayerList(const plan::Plan& plan) {
  std::vector<int64_t> layers;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) layers.push_back(stage.layers());
  }
  const bool even = std::all_of(layers.begin(), layers.end(),
                                [&layers](int64_t count) { return count == layers.front(); });
  if (even) return {};
  return {"--num-layer-list", absl::StrJoin(layers, ",")};
}

}  // namespace

Violations CheckMindSpeedOptions(const Arguments& arguments) {
  Violations violations;
  for (const Argument& argument : arguments.all()) {
    if (arguments.Find(argument.option->dest) != &argument) continue;
    const absl::string_view dest = argument.option->dest;
    if (dest == "moe_layer_freq" && arguments.Find("num_experts") != nullptr &&
        !DenseLayersInFront(Text(arguments, dest)).has_value()) {
      violations.push_back({"mindspeed_layer_pattern", argument.flag,
                            "MindSpeed-LLM takes dense layers in front of those with experts "
                            "(--first-k-dense-replace), and no other pattern."});
    }
    if (dest == "cp_comm_type" &&
        (argument.values.size() > 1 || ContextAlgorithm(Text(arguments, dest)).empty())) {
      violations.push_back({"mindspeed_context_communication", argument.flag,
                            "MindSpeed-LLM exchanges context by p2p or a2a alone."});
    }
    if (!KnownFlag(*argument.option, argument.flag).empty()) continue;
    if (IsReplacedByPlan(dest)) continue;
    violations.push_back(
        {"mindspeed_knows_option", argument.flag,
         absl::StrCat("MindSpeed-LLM c77308a1, whose Megatron-LM is core_v0.12.1, is not known to "
                      "take ",
                      argument.flag, "; leave it out for this engine.")});
  }
  return violations;
}

PlannedArguments PlanMindSpeedArguments(const Arguments& arguments, const plan::Plan& plan) {
  PlannedArguments planned = PlanArguments(arguments, plan);
  std::vector<Words> job;
  for (Words& words : planned.job) {
    const Argument argument = ArgumentOf(words);
    if (IsReplaced(argument.option->dest)) continue;
    const std::string flag = KnownFlag(*argument.option, argument.flag);
    if (!flag.empty() && flag != argument.flag) {
      words.front() = absl::StrCat(flag, words.front().substr(argument.flag.size()));
    }
    job.push_back(std::move(words));
  }
  for (Words& words : Additions(arguments, plan)) job.push_back(std::move(words));
  planned.job = std::move(job);

  std::vector<Words> said;
  for (Words& words : planned.plan) {
    if (words.front() == "--pipeline-model-parallel-layout") {
      words = LayerList(plan);
      if (words.empty()) continue;
    }
    said.push_back(std::move(words));
  }
  planned.plan = std::move(said);
  return planned;
}

}  // namespace hapmoe::engine
