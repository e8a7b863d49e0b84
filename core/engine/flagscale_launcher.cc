#include "core/engine/flagscale_launcher.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/engine/flagscale_options.h"
#include "core/engine/flagscale_script.h"

namespace hapmoe::engine {
namespace {

using model::Recompute;

struct StageAt {
  const plan::Mesh* mesh = nullptr;
  const plan::Stage* stage = nullptr;
};

std::vector<StageAt> StagesOf(const plan::Plan& plan) {
  std::vector<StageAt> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) stages.push_back({&mesh, &stage});
  }
  return stages;
}

bool Recomputes(const plan::Stage& stage) {
  return stage.recompute.granularity == Recompute::Granularity::kFull &&
         stage.recompute.num_layers > 0;
}

// FlagScale writes cmd="..." with every word in single quotes where it needs them, and has bash
// read it twice: quotes, dollars, back quotes and backslashes would be read. A dollar also starts
// an interpolation of its configuration, and "???" is a value that it misses.
bool SurvivesFlagScale(absl::string_view text) {
  return text != "???" && absl::c_none_of(text, [](unsigned char c) {
           return c < ' ' || c == 127 || c == '"' || c == '\'' || c == '$' || c == '`' || c == '\\';
         });
}

// What FlagScale writes into scripts without any quotes.
bool IsPlainWord(absl::string_view text) {
  return !text.empty() && text.front() != '-' && absl::c_all_of(text, [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("/._+@:-", static_cast<char>(c));
  });
}

bool IsPath(absl::string_view dest) {
  return dest == "save" || dest == "load" || dest == "tensorboard_dir" || dest == "wandb_save_dir";
}

absl::Status CheckValue(const Argument& argument, const std::string& value) {
  if (!SurvivesFlagScale(value) || (IsPath(argument.option->dest) && !IsPlainWord(value))) {
    return absl::InvalidArgumentError(
        absl::StrCat("The value of ", argument.flag,
                     " holds characters that FlagScale's scripts would read: ", Quoted(value)));
  }
  double number;
  if (absl::StartsWith(value, "-") &&
      (absl::StrContains(value, 'e') || absl::StrContains(value, 'E') ||
       !ParsePythonFloat(value, &number))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The value of ", argument.flag,
        " starts with a dash, and FlagScale would pass it as an option: ", Quoted(value)));
  }
  return absl::OkStatus();
}

absl::Status CheckWords(const LauncherInput& input, const JobOptions& options) {
  for (const Argument* argument : options.kept) {
    if (FlagScaleKey(*argument->option, argument->flag).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("FlagScale's Megatron-LM has no option ", argument->flag, "."));
    }
    for (const std::string& value : argument->values) {
      HAPMOE_RETURN_IF_ERROR(CheckValue(*argument, value));
    }
  }
  for (const plan::AssignedNode& node : input.nodes.nodes) {
    if (!IsPlainWord(node.host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("The host of node ", node.node_rank,
                       " is no word that FlagScale can pass to ssh: ", Quoted(node.host)));
    }
  }
  for (const PoolEnvironment& environment : input.environments) {
    for (const EnvironmentVariable& variable : environment.variables) {
      if (!SurvivesFlagScale(variable.name) || !SurvivesFlagScale(variable.value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("An environment variable holds characters that FlagScale's scripts would "
                         "read: ",
                         Quoted(variable.name)));
      }
    }
  }
  for (const EngineRequirement& requirement : input.requirements) {
    if (absl::StrContains(requirement.backend, '\0') ||
        absl::StrContains(requirement.needs, '\0') || requirement.backend.empty()) {
      return absl::InvalidArgumentError("An engine requirement is empty or holds a NUL byte.");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlan(const LauncherInput& input) {
  const plan::Plan& plan = input.plan;
  const std::vector<StageAt> stages = StagesOf(plan);
  if (stages.empty()) return absl::InvalidArgumentError("The plan has no stages.");
  if (input.nodes.stages.size() != stages.size()) {
    return absl::InvalidArgumentError("The node assignment is not that of the plan.");
  }
  const plan::Degrees& first = stages.front().mesh->degrees;
  for (size_t i = 0; i < stages.size(); ++i) {
    const plan::Degrees& degrees = stages[i].mesh->degrees;
    const auto refuse = [i](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("Stage ", i, " of the plan ", what, "."));
    };
    if (std::min({degrees.tp, degrees.dp, degrees.ep, degrees.etp}) < 1) {
      return refuse("has a parallel degree below 1");
    }
    if (degrees.cp != 1) return refuse("splits context, which FlagScale does not");
    if (plan.micro_batch * first.dp % degrees.dp != 0) {
      return refuse("cannot divide a step's samples by its dp");
    }
    if (degrees.tp != first.tp && !plan.sequence_parallel) {
      return refuse("has another tp than the first, without sequence parallelism");
    }
    if (stages[i].stage->chunks.size() != 1) return refuse("has virtual stages");
    if (stages[i].stage->recompute.granularity == Recompute::Granularity::kSelective) {
      return refuse("recomputes modules, and FlagScale knows whole layers only");
    }
  }
  return absl::OkStatus();
}

// One YAML scalar. Text stands between single quotes, in which nothing but a quote is special.
std::string Scalar(const std::string& text) { return absl::StrCat("'", text, "'"); }

std::string ValueOf(const Argument& argument) {
  if (argument.option->arity == Arity::kNone) return "true";
  const auto scalar = [](const std::string& text) {
    // Digits read the same either way.
    const bool digits =
        !text.empty() && text.size() < 19 && absl::c_all_of(text, absl::ascii_isdigit);
    return digits && (text == "0" || text.front() != '0') ? text : Scalar(text);
  };
  if (argument.option->arity == Arity::kOne && argument.values.size() == 1) {
    return scalar(argument.values.front());
  }
  return absl::StrCat("[",
                      absl::StrJoin(argument.values, ", ",
                                    [&scalar](std::string* out, const std::string& value) {
                                      absl::StrAppend(out, scalar(value));
                                    }),
                      "]");
}

std::string ListOf(const std::vector<int64_t>& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

// The sections of train/job.yaml. FlagScale sets the paths of checkpoints and logs itself, in
// sections of its own; elsewhere they would stand twice.
enum class Section { kCheckpoint, kLogging, kSystem, kModel, kData };

Section SectionOf(absl::string_view dest) {
  if (dest == "save" || dest == "load" || dest == "save_interval" ||
      absl::StartsWith(dest, "ckpt_") || absl::StartsWith(dest, "no_save_") ||
      absl::StartsWith(dest, "no_load_")) {
    return Section::kCheckpoint;
  }
  if (absl::StartsWith(dest, "tensorboard_") || absl::StartsWith(dest, "wandb_") ||
      absl::StartsWith(dest, "log_")) {
    return Section::kLogging;
  }
  if (absl::StartsWith(dest, "overlap_") || absl::StartsWith(dest, "distributed_") ||
      absl::StartsWith(dest, "tp_comm_") || dest == "use_distributed_optimizer" || dest == "bf16" ||
      dest == "fp16") {
    return Section::kSystem;
  }
  if (absl::StrContains(dest, "data") || absl::StrContains(dest, "tokenizer") ||
      absl::StartsWith(dest, "vocab_") || dest == "merge_file" || dest == "split" ||
      dest == "num_workers") {
    return Section::kData;
  }
  return Section::kModel;
}

using Sections = std::map<Section, std::string>;

void AddLine(Sections& sections, Section section, absl::string_view key, absl::string_view value) {
  const bool nested = section == Section::kCheckpoint || section == Section::kLogging;
  absl::StrAppend(&sections[section], nested ? "    " : "  ", key, ": ", value, "\n");
}

// Recomputation: base values, and by stage where stages differ. A row holds for all micro-batches,
// [stages, micro-batches, value]: a row that switched off during a step would never switch on
// again.
void AddRecompute(const plan::Plan& plan, const std::vector<StageAt>& stages, Sections& sections) {
  const auto recomputes = [](const StageAt& at) { return Recomputes(*at.stage); };
  const auto one = absl::c_find_if(stages, recomputes);
  if (one == stages.end()) return;
  const auto uniform = [](const Recompute& recompute) {
    return recompute.method == Recompute::Method::kUniform;
  };
  const Recompute& base = one->stage->recompute;
  AddLine(sections, Section::kSystem, "recompute_granularity", "full");
  AddLine(sections, Section::kSystem, "recompute_method", uniform(base) ? "uniform" : "block");
  AddLine(sections, Section::kSystem, "recompute_num_layers", absl::StrCat(base.num_layers));
  const bool alike = absl::c_all_of(stages, [&base, &recomputes](const StageAt& at) {
    return recomputes(at) && at.stage->recompute == base;
  });
  if (alike) return;

  struct Row {
    int64_t stages = 0;
    int64_t granularity = 0, method = 1, layers = 0;
  };
  std::vector<Row> rows;
  for (const StageAt& at : stages) {
    Row row = {.stages = 1};
    if (recomputes(at)) {
      row.granularity = 1;
      row.method = uniform(at.stage->recompute) ? 0 : 1;
      row.layers = at.stage->recompute.num_layers;
    }
    const bool same = !rows.empty() && rows.back().granularity == row.granularity &&
                      rows.back().method == row.method && rows.back().layers == row.layers;
    if (same) {
      ++rows.back().stages;
    } else {
      rows.push_back(row);
    }
  }
  const auto add = [&](absl::string_view name, int64_t Row::*value) {
    std::vector<std::string> lists;
    lists.reserve(rows.size());
    for (const Row& row : rows) {
      lists.push_back(ListOf({row.stages, plan.micro_batches, row.*value}));
    }
    AddLine(sections, Section::kSystem, absl::StrCat("recompute_", name, "_per_stage_micro_batch"),
            absl::StrCat("[", absl::StrJoin(lists, ", "), "]"));
  };
  add("granularity", &Row::granularity);
  add("method", &Row::method);
  add("num_layers", &Row::layers);
}

void AddDegrees(const LauncherInput& input, const std::vector<StageAt>& stages,
                Sections& sections) {
  const plan::Plan& plan = input.plan;
  const plan::Degrees& first = stages.front().mesh->degrees;
  const bool experts = input.arguments.Find("num_experts") != nullptr;
  const auto set = [&sections](absl::string_view key, int64_t value) {
    AddLine(sections, Section::kSystem, key, absl::StrCat(value));
  };
  set("tensor_model_parallel_size", first.tp);
  set("pipeline_model_parallel_size", static_cast<int64_t>(stages.size()));
  set("context_parallel_size", 1);
  if (experts) {
    set("expert_model_parallel_size", first.ep);
    set("expert_tensor_parallel_size", first.etp);
    if (SetsDispatcher(input.arguments, plan)) {
      AddLine(sections, Section::kModel, "moe_token_dispatcher_type",
              model::DispatcherName(*plan.dispatcher));
    }
  }
  const bool tensors =
      absl::c_any_of(stages, [](const StageAt& at) { return at.mesh->degrees.tp > 1; });
  if (tensors && (plan.sequence_parallel || experts)) {
    AddLine(sections, Section::kSystem, "sequence_parallel", "true");
  }
  if (absl::c_linear_search(std::vector<std::string>{"nccl", "gloo", "flagcx"}, input.backend)) {
    AddLine(sections, Section::kSystem, "distributed_backend", input.backend);
  }
  AddLine(sections, Section::kModel, "micro_batch_size", absl::StrCat(plan.micro_batch));
  AddLine(sections, Section::kModel, "global_batch_size", absl::StrCat(plan.global_batch));
}

// The process meshes, one for each stage: [tp, cp, ep, dp, pp].
std::string HeteroSection(const LauncherInput& input, const std::vector<StageAt>& stages) {
  std::vector<std::string> types;
  for (const std::string& type : FlagScaleDeviceTypes(input.plan, input.cluster)) {
    types.push_back(Scalar(type));
  }
  std::vector<std::string> meshes;
  std::vector<int64_t> layers, expert_tensors;
  for (const StageAt& at : stages) {
    const plan::Degrees& degrees = at.mesh->degrees;
    meshes.push_back(
        absl::StrJoin({degrees.tp, degrees.cp, degrees.ep, degrees.dp, int64_t{1}}, ", "));
    layers.push_back(at.stage->layers());
    expert_tensors.push_back(degrees.etp);
  }
  std::string text = absl::StrCat(
      "  hetero:\n    enable_hetero: true\n    hetero_device_types: [", absl::StrJoin(types, ", "),
      "]\n    hetero_current_device_type: ", types.front(), "\n    hetero_process_meshes: [",
      absl::StrJoin(meshes, ",  "), "]\n    hetero_pipeline_layer_split: ", ListOf(layers), "\n");
  if (input.arguments.Find("num_experts") != nullptr) {
    absl::StrAppend(
        &text, "    expert_tensor_parallel_size_per_process_mesh: ", ListOf(expert_tensors), "\n");
  }
  return text;
}

std::string TrainYaml(const LauncherInput& input, const JobOptions& options) {
  const std::vector<StageAt> stages = StagesOf(input.plan);
  Sections sections;
  AddDegrees(input, stages, sections);
  AddRecompute(input.plan, stages, sections);
  AddLine(sections, Section::kCheckpoint, "ckpt_format", "torch");
  for (const Argument* argument : options.kept) {
    AddLine(sections, SectionOf(argument->option->dest),
            FlagScaleKey(*argument->option, argument->flag), ValueOf(*argument));
  }
  std::string text =
      "# The job's options and the plan's. Keys of [tp, cp, ep, dp, pp] and lists by stage follow "
      "the pipeline.\nsystem:\n";
  absl::StrAppend(&text, sections[Section::kSystem], "  checkpoint:\n",
                  sections[Section::kCheckpoint]);
  if (!sections[Section::kLogging].empty()) {
    absl::StrAppend(&text, "  logging:\n", sections[Section::kLogging]);
  }
  absl::StrAppend(&text, HeteroSection(input, stages), "model:\n", sections[Section::kModel]);
  const std::string& data = sections[Section::kData];
  absl::StrAppend(&text, data.empty() ? "data: {}\n" : "data:\n", data);
  return text;
}

std::string DeviceList(int64_t devices) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < devices; ++i) numbers.push_back(i);
  return Scalar(absl::StrJoin(numbers, ","));
}

// The environment of all nodes, and of the nodes of each device type. FlagScale counts the devices
// of the first *_VISIBLE_DEVICES of all nodes, and starts no more processes than that on any.
std::string Environments(const LauncherInput& input, const std::vector<std::string>& types) {
  const auto of = [&input](int64_t pool) {
    return static_cast<size_t>(pool) < input.environments.size() ? input.environments[pool]
                                                                 : PoolEnvironment();
  };
  const std::vector<StageAt> stages = StagesOf(input.plan);
  int64_t most = 0;
  for (const plan::AssignedNode& node : input.nodes.nodes) {
    most = std::max(most, input.cluster.pools[node.pool].accelerators_per_node);
  }
  std::string visible = of(stages.front().mesh->pool).visible_devices;
  if (visible.empty()) visible = "CUDA_VISIBLE_DEVICES";
  std::string text = absl::StrCat("    ", visible, ": ", DeviceList(most), "\n");
  absl::StrAppend(&text, "    device_type_specific:\n");
  std::set<std::string> told;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!told.insert(types[i]).second) continue;
    const int64_t pool = stages[i].mesh->pool;
    const PoolEnvironment environment = of(pool);
    const std::string& own =
        environment.visible_devices.empty() ? visible : environment.visible_devices;
    absl::StrAppend(&text, "      ", Scalar(types[i]), ":\n        ", own, ": ",
                    DeviceList(input.cluster.pools[pool].accelerators_per_node), "\n");
    for (const EnvironmentVariable& variable : environment.variables) {
      absl::StrAppend(&text, "        ", variable.name, ": ", Scalar(variable.value), "\n");
    }
  }
  return text;
}

std::string ExperimentYaml(const LauncherInput& input, const std::vector<std::string>& types) {
  return absl::StrCat(
      "# launch.sh sets exp_dir, hostfile and the ports. No nnodes and no nproc_per_node: hostfile "
      "says both.\n"
      "defaults:\n"
      "  - train: job\n"
      "  - _self_\n"
      "experiment:\n"
      "  exp_name: 'hapmoe'\n"
      "  exp_dir: '.'\n"
      "  task:\n"
      "    type: train\n"
      "    backend: megatron\n"
      "    entrypoint: flagscale/train/train_gpt.py\n"
      "  runner:\n"
      "    backend: torchrun\n"
      "    rdzv_backend: static\n"
      "    hostfile: hostfile\n"
      "    ssh_port: 22\n"
      "    master_port: 29511\n"
      "  envs:\n",
      Environments(input, types),
      "action: run\n"
      "hydra:\n"
      "  run:\n"
      "    dir: ${experiment.exp_dir}/hydra\n");
}

std::string HostFile(const LauncherInput& input, const std::vector<std::string>& types) {
  std::string text = "# The nodes of the plan, in the order of the pipeline.\n";
  for (const plan::AssignedNode& node : input.nodes.nodes) {
    const int64_t stage = plan::StageOfRank(input.plan, node.first_rank);
    absl::StrAppend(&text, node.host, " slots=", node.processes, " type=", types[stage], "\n");
  }
  return text;
}

}  // namespace

std::vector<std::string> FlagScaleDeviceTypes(const plan::Plan& plan,
                                              const cluster::Cluster& cluster) {
  std::vector<int64_t> pools;  // Of each stage.
  for (const StageAt& at : StagesOf(plan)) pools.push_back(at.mesh->pool);
  std::map<int64_t, int64_t> runs;  // Of stages on each pool.
  for (size_t i = 0; i < pools.size(); ++i) {
    if (i == 0 || pools[i] != pools[i - 1]) ++runs[pools[i]];
  }
  std::vector<std::string> types;
  std::set<std::string> taken;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (i > 0 && pools[i] == pools[i - 1]) {
      types.push_back(types.back());
      continue;
    }
    std::string type = cluster.pools[pools[i]].name;
    for (char& c : type) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
    }
    if (type.empty() || type.front() == '-') type = absl::StrCat("pool", type);
    if (runs[pools[i]] > 1) absl::StrAppend(&type, "_s", i);
    while (!taken.insert(type).second) type.push_back('_');
    types.push_back(std::move(type));
  }
  return types;
}

absl::StatusOr<std::vector<Artifact>> RenderFlagScaleLauncher(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckPlan(input));
  const JobOptions options = FlagScaleOptions(input.arguments, input.plan);
  HAPMOE_RETURN_IF_ERROR(CheckWords(input, options));
  const std::vector<std::string> types = FlagScaleDeviceTypes(input.plan, input.cluster);
  std::vector<Artifact> artifacts;
  artifacts.push_back({"launch.sh",
                       "Starts the job on all hosts with FlagScale; run it once, first as it is, "
                       "which starts nothing.",
                       RenderFlagScaleScript(ConfirmedBackends(input.requirements),
                                             ConfirmationText(input.requirements)),
                       true});
  artifacts.push_back({"experiment.yaml",
                       "FlagScale's configuration of the run: hosts, environment, entry point.",
                       ExperimentYaml(input, types), false});
  artifacts.push_back({"train/job.yaml",
                       "FlagScale's configuration of the job: its options, and a process mesh for "
                       "each stage.",
                       TrainYaml(input, options), false});
  artifacts.push_back({"hostfile",
                       "The nodes of the plan in the order of the pipeline, with their slots and "
                       "device types.",
                       HostFile(input, types), false});
  return artifacts;
}

}  // namespace hapmoe::engine
