#include "client/launch_kind.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace hapmoe::client {
namespace {

constexpr char kGiveArguments[] =
    "give the Megatron-LM arguments of the same job with --args-file, or after --";

std::string EntryName(const Launch& launch) {
  const absl::string_view entry = launch.entry;
  const size_t slash = entry.rfind('/');
  return std::string(slash == absl::string_view::npos ? entry : entry.substr(slash + 1));
}

bool EntryHas(const Launch& launch, absl::string_view text) {
  return absl::StrContains(launch.entry, text);
}

bool HasOption(const Launch& launch, absl::string_view option) {
  return std::any_of(
      launch.arguments.begin(), launch.arguments.end(), [option](const std::string& argument) {
        return argument == option || absl::StartsWith(argument, absl::StrCat(option, "="));
      });
}

// "model.x=1", "+a.b=2": settings of Hydra and its like.
bool IsOverride(absl::string_view argument) {
  while (!argument.empty() && (argument[0] == '+' || argument[0] == '~')) argument.remove_prefix(1);
  const size_t equals = argument.find('=');
  const size_t dot = argument.find('.');
  if (dot == 0 || dot == absl::string_view::npos || equals == absl::string_view::npos ||
      dot > equals) {
    return false;
  }
  return std::all_of(argument.begin(), argument.begin() + equals,
                     [](char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-' ||
                              c == '/' || c == '@';
                     }) &&
         absl::ascii_isalpha(argument[0]);
}

bool HasOverrides(const Launch& launch, absl::string_view section = "") {
  return std::any_of(
      launch.arguments.begin(), launch.arguments.end(), [section](absl::string_view argument) {
        return IsOverride(argument) && absl::StartsWith(absl::StripPrefix(argument, "+"), section);
      });
}

bool IsBridge(const Launch& launch) {
  const std::string name = EntryName(launch);
  return name == "run_recipe.py" || EntryHas(launch, "Megatron-Bridge") ||
         EntryHas(launch, "megatron/bridge") || EntryHas(launch, "megatron.bridge") ||
         (HasOption(launch, "--recipe") && !HasOption(launch, "--num-layers"));
}

bool IsNemo(const Launch& launch) {
  return EntryHas(launch, "nemo") || EntryName(launch) == "megatron_gpt_pretraining.py" ||
         HasOverrides(launch, "trainer.") || HasOverrides(launch, "exp_manager.");
}

bool IsFlagScale(const Launch& launch) {
  return launch.program == "flagscale" || EntryHas(launch, "flagscale/run.py") ||
         ((EntryName(launch) == "run.py" || EntryName(launch) == "cli.py") &&
          HasOption(launch, "--config-path") && HasOption(launch, "--config-name"));
}

bool IsVerl(const Launch& launch) {
  return EntryHas(launch, "verl") || HasOverrides(launch, "actor_rollout_ref.");
}

bool IsPrimus(const Launch& launch) {
  return EntryHas(launch, "primus") || HasOption(launch, "--exp");
}

bool IsDeepSpeed(const Launch& launch) {
  return launch.program == "deepspeed" || HasOption(launch, "--deepspeed") ||
         HasOption(launch, "--deepspeed_config") || HasOption(launch, "--deepspeed-config");
}

bool IsAccelerate(const Launch& launch) { return launch.program == "accelerate"; }

bool IsTransformers(const Launch& launch) {
  return HasOption(launch, "--model_name_or_path") ||
         HasOption(launch, "--per_device_train_batch_size") || EntryHas(launch, "llamafactory");
}

bool IsTorchTitan(const Launch& launch) {
  return EntryHas(launch, "torchtitan") || HasOption(launch, "--job.config_file");
}

bool IsOtherHydra(const Launch& launch) { return HasOverrides(launch) && !IsTraining(launch); }

struct Kind {
  const char* name;
  bool (*is)(const Launch& launch);
  const char* instead;
  // Whether it is one with Megatron-LM's options, too. Else a Megatron-LM job may lie in a
  // directory with any name.
  bool always = false;
};

constexpr Kind kKinds[] = {
    {"Megatron-Bridge", IsBridge,
     "its settings are of the form model.x=y and the shape is in a recipe"},
    {"verl", IsVerl, "its settings are of the form actor_rollout_ref.x=y"},
    {"FlagScale", IsFlagScale,
     "give its train YAML, or its experiment YAML beside a train/ directory, as --script "
     "FILE.yaml"},
    {"NeMo", IsNemo, "its settings are of the form model.x=y"},
    {"Primus", IsPrimus, "its settings are in a YAML file"},
    {"torchtitan", IsTorchTitan, "its settings are in a TOML file"},
    {"DeepSpeed", IsDeepSpeed, "its parallelism is in a JSON file", true},
    {"Accelerate", IsAccelerate, "its parallelism is in a configuration of its own", true},
    {"Transformers", IsTransformers, "the model's shape is in its configuration"},
    {"a program with Hydra settings", IsOtherHydra, "its settings are of the form section.x=y"},
};

// Options of MindSpeed and MindSpeed-LLM that stock Megatron-LM does not have, and what says the
// same there, where something does.
struct ForeignOption {
  const char* name;
  const char* instead;
};

constexpr ForeignOption kMindSpeed[] = {
    {"--num-layer-list", "--pipeline-model-parallel-layout"},
    {"--pipeline-num-transformer-layers", "--pipeline-model-parallel-layout"},
    {"--noop-layers", "--num-layers without them"},
    {"--moe-tp-extend-ep", "--expert-tensor-parallel-size 1"},
    {"--context-parallel-algo", "--cp-comm-type"},
    {"--ulysses-degree-in-cp", "--cp-comm-type"},
    {"--first-k-dense-replace", "--moe-layer-freq"},
    {"--tokenizer-name-or-path", "--tokenizer-model"},
    {"--use-fused-rmsnorm", ""},
    {"--use-fused-swiglu", ""},
    {"--use-fused-rotary-pos-emb", ""},
    {"--moe-permutation-async-comm", ""},
    {"--moe-alltoall-overlap-comm", ""},
    {"--moe-allgather-overlap-comm", ""},
    {"--moe-fb-overlap", ""},
    {"--reuse-fp32-param", ""},
    {"--swap-attention", ""},
    {"--swap-optimizer", ""},
    {"--recompute-activation-function", ""},
    {"--recompute-in-advance", ""},
    {"--recompute-in-bubble", ""},
    {"--use-ascend-mc2", ""},
    {"--use-ascend-coc", ""},
    {"--use-cp-send-recv-overlap", ""},
    {"--optimize-recomp-communication-level", ""},
};

// MindSpeed's launches are Megatron-LM's but for some options, which are all named.
std::string MindSpeedRefusal(const Launch& launch) {
  std::vector<std::string> found;
  for (const ForeignOption& option : kMindSpeed) {
    if (!HasOption(launch, option.name)) continue;
    found.push_back(*option.instead == 0 ? option.name
                                         : absl::StrCat(option.name, " (", option.instead, ")"));
  }
  if (found.empty()) return "";
  return absl::StrCat(
      "it is a launch of MindSpeed: give its arguments with --args-file, without what Megatron-LM "
      "does not have, or with what it has instead: ",
      absl::StrJoin(found, ", "));
}

}  // namespace

bool IsTraining(const Launch& launch) {
  for (const char* option : {"--num-layers", "--micro-batch-size", "--train-iters",
                             "--train-samples", "--global-batch-size", "--yaml-cfg"}) {
    if (HasOption(launch, option)) return true;
  }
  return false;
}

std::string RefusalOf(const Launch& launch) {
  if (HasOption(launch, "--yaml-cfg")) {
    return "--yaml-cfg replaces every other argument by a file: give the file's settings as "
           "arguments instead";
  }
  if (HasOption(launch, "--use-checkpoint-args")) {
    return "--use-checkpoint-args takes the model's shape from a checkpoint: leave it out and give "
           "--num-layers, --hidden-size, --num-attention-heads and what else the checkpoint holds";
  }
  if (std::string refusal = MindSpeedRefusal(launch); !refusal.empty()) return refusal;
  for (const Kind& kind : kKinds) {
    if (!kind.is(launch) || (HasOption(launch, "--num-layers") && !kind.always)) continue;
    return absl::StrCat("it is a launch of ", kind.name,
                        ", whose arguments are not Megatron-LM's (", kind.instead, "); ",
                        absl::StrContains(kind.instead, "--script") ? "or " : "", kGiveArguments);
  }
  return "";
}

}  // namespace hapmoe::client
