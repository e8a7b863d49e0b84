#include "core/engine/flagscale_options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace hapmoe::engine {
namespace {

bool IsMissing(absl::string_view flag) {
  static const auto& missing = *new absl::flat_hash_set<absl::string_view>{
#include "core/engine/flagscale_missing_options.inc"
  };
  return missing.contains(flag);
}

// An underscore of a spelling would come back as a dash.
bool CanBeKey(absl::string_view flag) {
  return absl::StartsWith(flag, "--") && !absl::StrContains(flag, '_') && !IsMissing(flag);
}

std::string KeyOf(absl::string_view flag) {
  return absl::StrReplaceAll(flag.substr(2), {{"-", "_"}});
}

// Keys that the launcher writes itself, beside those that every plan replaces.
bool IsWrittenByLauncher(absl::string_view dest) {
  return dest == "distributed_backend" || dest == "micro_batch_size" || dest == "global_batch_size";
}

bool SomeStageWithoutTensorParallelism(const plan::Plan& plan) {
  return std::any_of(plan.meshes.begin(), plan.meshes.end(),
                     [](const plan::Mesh& mesh) { return mesh.degrees.tp == 1; });
}

bool Is(const Argument& argument, absl::string_view value) {
  return !argument.values.empty() && argument.values.front() == value;
}

// FlagOpen/FlagScale da4935ec; files of its patch on Megatron-LM, or of Megatron-LM 8479eb35.
std::optional<std::string> RefusedBecause(const Argument& argument, const plan::Plan& plan) {
  const absl::string_view dest = argument.option->dest;
  if (dest == "log_params_norm") {
    // training/utils.py.patch:64-66 reads a variable that it has not set.
    return "FlagScale fails on it where stages have degrees of their own.";
  }
  if (dest == "calculate_per_token_loss") {
    // core/distributed/finalize_model_grads.py:560.
    return "FlagScale does not average over tokens where stages have degrees of their own.";
  }
  if (dest == "num_distributed_optimizer_instances") {
    // parallel_context.py:551.
    if (!Is(argument, "1")) return "FlagScale runs one instance of the distributed optimizer.";
  } else if (dest == "ckpt_format") {
    // Layers are numbered from 0 on every stage, so the keys of other formats collide.
    if (!Is(argument, "torch")) {
      return "Checkpoints of stages with degrees of their own are sound in format torch only, "
             "which is set instead.";
    }
  } else if (dest == "async_save") {
    return "It needs the checkpoint format torch_dist.";
  } else if (dest == "overlap_p2p_comm") {
    return "FlagScale's exchange between stages does not overlap.";
  } else if (dest == "tp_comm_overlap") {
    if (SomeStageWithoutTensorParallelism(plan)) {
      return "It needs sequence parallelism, and a stage has tp = 1.";
    }
  } else if (dest == "standalone_embedding_stage") {
    return "The embedding is on the first stage.";
  }
  return std::nullopt;
}

}  // namespace

std::string FlagScaleKey(const MegatronOption& option, absl::string_view flag) {
  if (CanBeKey(flag)) return KeyOf(flag);
  // Spellings that say no must not stand for one that says yes.
  const auto denies = [](absl::string_view text) {
    return absl::StartsWith(text, "--no-") || absl::StartsWith(text, "--disable-");
  };
  for (const absl::string_view spelling : absl::StrSplit(option.flags, ' ')) {
    if (CanBeKey(spelling) && denies(spelling) == denies(flag)) return KeyOf(spelling);
  }
  return "";
}

Violations CheckFlagScaleOptions(const Arguments& arguments) {
  Violations violations;
  for (const Argument& argument : arguments.all()) {
    if (arguments.Find(argument.option->dest) != &argument) continue;
    if (!FlagScaleKey(*argument.option, argument.flag).empty()) continue;
    violations.push_back(
        {"flagscale_knows_option", argument.flag,
         absl::StrCat("FlagScale da4935ec, whose Megatron-LM is of 2025-09, cannot be given ",
                      argument.flag, "; leave it out for this engine.")});
  }
  return violations;
}

JobOptions FlagScaleOptions(const Arguments& arguments, const plan::Plan& plan) {
  JobOptions options = OptionsThatStay(arguments, plan);
  std::vector<const Argument*> kept;
  for (const Argument* argument : options.kept) {
    if (arguments.Find(argument->option->dest) != argument) continue;
    if (IsWrittenByLauncher(argument->option->dest)) continue;
    if (std::optional<std::string> reason = RefusedBecause(*argument, plan)) {
      options.withdrawn.push_back({argument->flag, *std::move(reason)});
    } else if (argument->option->dest != "ckpt_format") {
      kept.push_back(argument);
    }
  }
  options.kept = std::move(kept);
  return options;
}

}  // namespace hapmoe::engine
