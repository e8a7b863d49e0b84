#include "core/engine/node_launcher.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/launch_script.h"

namespace hapmoe::engine {
namespace {

constexpr absl::string_view kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";

bool HasNul(absl::string_view text) { return text.find('\0') != absl::string_view::npos; }

// Variables of bash, of torchrun and of the script itself.
bool IsVariable(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name.front())) return false;
  return absl::c_all_of(
      name, [](char c) { return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '_'; });
}

absl::Status CheckEnvironments(const LauncherInput& input) {
  for (const PoolEnvironment& environment : input.environments) {
    for (const EnvironmentVariable& variable : environment.variables) {
      if (HasNul(variable.name) || HasNul(variable.value)) {
        return absl::InvalidArgumentError("An environment variable holds a NUL byte.");
      }
      if (!IsVariable(variable.name) || IsReservedVariable(variable.name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "A launcher cannot set an environment variable of the name \"", variable.name, "\"."));
      }
    }
  }
  for (const EngineRequirement& requirement : input.requirements) {
    if (HasNul(requirement.backend) || HasNul(requirement.needs) || requirement.backend.empty()) {
      return absl::InvalidArgumentError("An engine requirement is empty or holds a NUL byte.");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWords(const LauncherInput& input) {
  if (input.entry.empty()) return absl::InvalidArgumentError("The entry script has no name.");
  if (HasNul(input.entry)) {
    return absl::InvalidArgumentError("The name of the entry script holds a NUL byte.");
  }
  for (const Argument& argument : input.arguments.all()) {
    if (HasNul(argument.flag) || absl::c_any_of(argument.values, HasNul)) {
      return absl::InvalidArgumentError(
          absl::StrCat("The value of ", argument.option->dest, " holds a NUL byte."));
    }
  }
  for (const plan::AssignedNode& node : input.nodes.nodes) {
    // Blanks would also end the field of a host file.
    const bool bad =
        absl::c_any_of(node.host, [](unsigned char c) { return c <= ' ' || c == 127; });
    if (node.host.empty() || bad) {
      return absl::InvalidArgumentError(
          absl::StrCat("The host of node ", node.node_rank,
                       " is empty, or holds a blank or a control character."));
    }
  }
  return CheckEnvironments(input);
}

absl::Status CheckPlan(const LauncherInput& input) {
  const plan::Plan& plan = input.plan;
  if (plan.meshes.empty() || plan.meshes.front().stages.empty() ||
      plan.meshes.front().stages.front().chunks.empty()) {
    return absl::InvalidArgumentError("The plan has no stages.");
  }
  const plan::Degrees& degrees = plan.meshes.front().degrees;
  if (std::min({degrees.tp, degrees.cp, degrees.dp, degrees.ep, degrees.etp}) < 1) {
    return absl::InvalidArgumentError("The plan has a parallel degree below 1.");
  }
  for (const plan::Mesh& mesh : plan.meshes) {
    if (mesh.degrees != degrees) {
      return absl::InvalidArgumentError(
          "Megatron-LM runs all stages with the same degrees, and the plan's meshes differ.");
    }
    for (const plan::Stage& stage : mesh.stages) {
      if (static_cast<int64_t>(stage.chunks.size()) != plan.virtual_stages()) {
        return absl::InvalidArgumentError(
            "Megatron-LM runs all stages with the same number of virtual stages.");
      }
      if (absl::c_any_of(stage.chunks, [](const plan::Chunk& chunk) {
            return chunk.layers < 0 || chunk.mtp_layers < 0;
          })) {
        return absl::InvalidArgumentError("A stage of the plan has fewer than 0 layers.");
      }
      if (stage.recompute.granularity == model::Recompute::Granularity::kFull &&
          stage.recompute.method == model::Recompute::Method::kUniform &&
          stage.recompute.num_layers < 1) {
        return absl::InvalidArgumentError(
            "Uniform recomputation of units of 0 layers never ends in Megatron-LM.");
      }
    }
  }
  if (static_cast<int64_t>(input.nodes.stages.size()) != plan.pipeline_stages()) {
    return absl::InvalidArgumentError("The node assignment is not that of the plan.");
  }
  return absl::OkStatus();
}

// Megatron-LM, megatron/training/arguments.py:1453-1479 and :1047, :1166.
std::vector<EnvironmentAction> ActionsOf(const cluster::Pool& pool,
                                         const PoolEnvironment& environment,
                                         const PlannedArguments& planned,
                                         const LauncherInput& input) {
  using Kind = EnvironmentAction::Kind;
  const Arguments& arguments = input.arguments;
  const plan::Degrees& degrees = input.plan.meshes.front().degrees;
  const bool shards = arguments.Find("use_megatron_fsdp") != nullptr ||
                      arguments.Find("use_torch_fsdp2") != nullptr;
  const Argument* overlap = arguments.Find("overlap_moe_expert_parallel_comm");
  const bool overlaps =
      overlap != nullptr && absl::c_none_of(planned.withdrawn, [&](const Withdrawn& withdrawn) {
        return withdrawn.flag == overlap->flag;
      });

  std::vector<EnvironmentAction> actions;
  bool settled = overlaps;  // Overlapped expert communication is better off with the default.
  if (shards) {
    actions.push_back({Kind::kRefuse, std::string(kConnections), "1"});
  } else if (environment.single_connection && !overlaps && (degrees.tp > 1 || degrees.cp > 1)) {
    actions.push_back({Kind::kForce, std::string(kConnections), "1"});
  }
  settled |= !actions.empty();
  if (!pool.devices.empty()) {
    const std::string& visible = environment.visible_devices;
    actions.push_back({Kind::kForce, visible.empty() ? "CUDA_VISIBLE_DEVICES" : visible,
                       absl::StrJoin(pool.devices, ",")});
  }
  for (const EnvironmentVariable& variable : environment.variables) {
    if (variable.name == kConnections) {
      if (settled) continue;
      actions.push_back({Kind::kPrefer, variable.name, variable.value});
      continue;
    }
    actions.push_back(
        {variable.forced ? Kind::kForce : Kind::kPrefer, variable.name, variable.value});
  }
  return actions;
}

std::string HostFile(const plan::NodeAssignment& nodes) {
  std::string text = "# The nodes of the plan, by node rank; slots are the processes of each.\n";
  for (const plan::AssignedNode& node : nodes.nodes) {
    absl::StrAppend(&text, node.host, " slots=", node.processes, "\n");
  }
  return text;
}

// Coordinates as in Megatron-LM, megatron/core/parallel_state.py:857-896: the leftmost of
// tp-cp-dp-pp and of etp-ep-expert_dp-pp varies fastest; with --use-tp-pp-dp-mapping pp stands
// before dp.
std::string RankFile(const LauncherInput& input) {
  const plan::Degrees& degrees = input.plan.meshes.front().degrees;
  const bool data_outermost = input.plan.rank_order == plan::RankOrder::kDataOutermost;
  const int64_t stages = input.plan.pipeline_stages();
  std::string text = "#rank\thost\tlocal_rank\tstage\ttp\tcp\tdp\tetp\tep\texpert_dp\n";
  for (const plan::AssignedNode& node : input.nodes.nodes) {
    for (int64_t local = 0; local < node.processes; ++local) {
      const int64_t rank = node.first_rank + local;
      const int64_t stage = plan::StageOfRank(input.plan, rank);
      // Position among the ranks of the stage.
      const int64_t dense_block = degrees.tp * degrees.cp;
      const int64_t expert_block = degrees.etp * degrees.ep;
      const int64_t dp = data_outermost ? rank / (dense_block * stages)
                                        : rank % degrees.stage_ranks() / dense_block;
      const int64_t expert_dp = data_outermost ? rank / (expert_block * stages)
                                               : rank % degrees.stage_ranks() / expert_block;
      const int64_t within = data_outermost ? rank : rank % degrees.stage_ranks();
      absl::StrAppend(
          &text,
          absl::StrJoin(
              {absl::StrCat(rank), node.host, absl::StrCat(local), absl::StrCat(stage),
               absl::StrCat(within % degrees.tp), absl::StrCat(within / degrees.tp % degrees.cp),
               absl::StrCat(dp), absl::StrCat(within % degrees.etp),
               absl::StrCat(within / degrees.etp % degrees.ep), absl::StrCat(expert_dp)},
              "\t"),
          "\n");
    }
  }
  return text;
}

}  // namespace

bool IsReservedVariable(absl::string_view name) {
  constexpr absl::string_view kReserved[] = {
      "BASHOPTS",    "BASHPID",       "BASH_ARGC",  "BASH_ARGV",   "BASH_ENV",        "BASH_LINENO",
      "BASH_SOURCE", "BASH_VERSINFO", "DIRSTACK",   "EUID",        "FUNCNAME",        "GROUPS",
      "HOSTNAME",    "IFS",           "LINENO",     "MASTER_ADDR", "MASTER_PORT",     "NODE_RANK",
      "OPTIND",      "PATH",          "PIPESTATUS", "PPID",        "RANDOM",          "SECONDS",
      "SHELLOPTS",   "TORCHRUN",      "UID",        "WORLD_SIZE",  "LOCAL_WORLD_SIZE"};
  return absl::c_linear_search(kReserved, name) || absl::EndsWith(name, "RANK") ||
         absl::StartsWith(name, "HAPMOE_");
}

std::string ConfirmedBackends(const std::vector<EngineRequirement>& requirements) {
  return absl::StrJoin(requirements, ",", [](std::string* out, const EngineRequirement& one) {
    absl::StrAppend(out, one.backend);
  });
}

std::string ConfirmationText(const std::vector<EngineRequirement>& requirements) {
  if (requirements.empty()) return "";
  const std::string needs = absl::StrJoin(
      requirements, "; and ",
      [](std::string* out, const EngineRequirement& one) { absl::StrAppend(out, one.needs); });
  return absl::StrCat("the plan needs ", needs,
                      ". Set HAPMOE_CONFIRM_BACKEND=", ConfirmedBackends(requirements),
                      " where every node has it.");
}

absl::Status CheckNodeInput(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckPlan(input));
  return CheckWords(input);
}

std::string EntryWord(const LauncherInput& input) {
  return absl::StartsWith(input.entry, "-") ? absl::StrCat("./", input.entry) : input.entry;
}

std::vector<Artifact> RenderNodeLauncher(const LauncherInput& input, const NodeProgram& program) {
  LaunchScript script{input.plan, input.nodes, program.arguments, program.engine, program.entry};
  script.preparation = program.preparation;
  for (size_t pool = 0; pool < input.cluster.pools.size(); ++pool) {
    const PoolEnvironment environment =
        pool < input.environments.size() ? input.environments[pool] : PoolEnvironment();
    script.environments.push_back(
        ActionsOf(input.cluster.pools[pool], environment, program.arguments, input));
  }
  script.backend = ConfirmedBackends(input.requirements);
  script.needs = ConfirmationText(input.requirements);

  std::vector<Artifact> artifacts;
  artifacts.push_back({"launch.sh",
                       "Starts one node's processes of the job; run it on every node of the plan "
                       "with the node's rank.",
                       RenderLaunchScript(script), true});
  artifacts.push_back({"hostfile", "The nodes of the plan in order of node rank, with their slots.",
                       HostFile(input.nodes), false});
  if (input.plan.world_size() <= kMaxRankFileRanks) {
    artifacts.push_back({"rankfile",
                         "Where each rank runs, its pipeline stage and its coordinates in the "
                         "parallel groups.",
                         RankFile(input), false});
  }
  return artifacts;
}

}  // namespace hapmoe::engine
