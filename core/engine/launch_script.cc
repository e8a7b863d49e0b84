#include "core/engine/launch_script.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/engine/launch_script_parts.h"
#include "core/engine/shell_quote.h"

namespace hapmoe::engine {
namespace {

// Which process takes which recomputation.
enum class Choice { kSame, kByNode, kByProcess };

std::string Integers(absl::string_view name, const std::vector<int64_t>& values) {
  return absl::StrCat("readonly -a ", name, "=(", absl::StrJoin(values, " "), ")\n");
}

std::string Array(absl::string_view name, const std::vector<Words>& options) {
  std::string text = absl::StrCat(name, "=(\n");
  for (const Words& option : options) {
    absl::StrAppend(&text, "  ", ShellQuote(absl::MakeConstSpan(option)), "\n");
  }
  return absl::StrCat(text, ")\n");
}

// The recomputation of each node, or nothing if a node hosts stages that differ.
std::vector<int64_t> RecomputeOfNodes(const LaunchScript& script) {
  std::vector<int64_t> nodes(script.nodes.nodes.size(), -1);
  for (size_t stage = 0; stage < script.nodes.stages.size(); ++stage) {
    const int64_t recompute = script.arguments.stage_recompute[stage];
    for (int64_t node : script.nodes.stages[stage].node_ranks) {
      if (nodes[node] >= 0 && nodes[node] != recompute) return {};
      nodes[node] = recompute;
    }
  }
  return nodes;
}

std::string Span(int64_t first, int64_t last) {
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

// Numbers and words of our own alone: text from outside could end a comment.
std::string Summary(const LaunchScript& script) {
  const plan::Degrees& degrees = script.plan.meshes.front().degrees;
  std::string text = absl::StrCat(
      "#\n# ", script.plan.world_size(), " processes on ", script.nodes.nodes.size(),
      " node(s): tp=", degrees.tp, " cp=", degrees.cp, " dp=", degrees.dp, " ep=", degrees.ep,
      " etp=", degrees.etp, " pp=", script.plan.pipeline_stages(), ", micro-batch ",
      script.plan.micro_batch, ", global batch ", script.plan.global_batch, ".\n");
  const std::vector<std::string> layout = absl::StrSplit(LayoutArgument(script.plan), '|');
  const size_t stages = script.nodes.stages.size();
  for (size_t stage = 0; stage < stages; ++stage) {
    const plan::StagePlacement& placement = script.nodes.stages[stage];
    std::vector<std::string> chunks;
    for (size_t i = stage; i < layout.size(); i += stages) chunks.push_back(layout[i]);
    absl::StrAppend(&text, "#   stage ", stage, ": ", absl::StrJoin(chunks, ", "));
    if (placement.consecutive) {
      absl::StrAppend(&text, "; ranks ",
                      Span(placement.first_rank, placement.first_rank + placement.ranks - 1));
    }
    Words recompute = script.arguments.recompute[script.arguments.stage_recompute[stage]];
    // What is off goes without saying.
    std::erase_if(recompute, [](const std::string& word) {
      return absl::EndsWith(word, "=null") || absl::EndsWith(word, "=false");
    });
    absl::StrAppend(&text, "; nodes ",
                    Span(placement.node_ranks.front(), placement.node_ranks.back()),
                    recompute.empty() ? "" : "; ", absl::StrJoin(recompute, " "), "\n");
  }
  if (script.arguments.withdrawn.empty()) return text;
  absl::StrAppend(&text, "# Options of the job that this plan excludes, and that are left out:\n");
  for (const Withdrawn& withdrawn : script.arguments.withdrawn) {
    absl::StrAppend(&text, "#   ", withdrawn.flag, ": ", withdrawn.reason, "\n");
  }
  return text;
}

std::string NodeTable(const LaunchScript& script) {
  std::vector<int64_t> processes, first_ranks;
  std::string hosts = "readonly -a node_host=(\n";
  for (const plan::AssignedNode& node : script.nodes.nodes) {
    absl::StrAppend(&hosts, "  ", ShellQuote(node.host), "\n");
    processes.push_back(node.processes);
    first_ranks.push_back(node.first_rank);
  }
  return absl::StrCat("# The nodes, by node rank.\nreadonly nodes=", script.nodes.nodes.size(),
                      " hosts_named=", script.nodes.hosts_named ? 1 : 0, "\n", hosts, ")\n",
                      Integers("node_processes", processes),
                      Integers("node_first_rank", first_ranks));
}

bool SharesHosts(const plan::NodeAssignment& nodes) {
  std::set<std::string> hosts;
  for (const plan::AssignedNode& node : nodes.nodes) hosts.insert(node.host);
  return hosts.size() < nodes.nodes.size();
}

std::string StageOfRankFunction(const plan::Plan& plan) {
  const plan::Degrees& degrees = plan.meshes.front().degrees;
  const std::string stage =
      plan.rank_order == plan::RankOrder::kDataOutermost
          ? absl::StrCat("$1 / ", degrees.tp * degrees.cp, " % ", plan.pipeline_stages())
          : absl::StrCat("$1 / ", degrees.stage_ranks());
  return absl::StrCat("\nstage_of_rank() {\n  printf '%d' \"$((", stage, "))\"\n}\n");
}

std::string ChooseRecomputeFunction(const PlannedArguments& arguments) {
  std::string text =
      "\n# Sets the arguments of one kind of recomputation.\n"
      "choose_recompute() {\n  case $1 in\n";
  for (size_t i = 0; i < arguments.recompute.size(); ++i) {
    absl::StrAppend(&text, "    ", i, ") recompute=(",
                    ShellQuote(absl::MakeConstSpan(arguments.recompute[i])), ") ;;\n");
  }
  return absl::StrCat(text, "  esac\n}\n");
}

std::string SetEnvironment(const LaunchScript& script) {
  std::string cases;
  std::vector<int64_t> pools;
  for (const plan::AssignedNode& node : script.nodes.nodes) pools.push_back(node.pool);
  const std::string table = Integers("node_pool", pools);
  absl::c_sort(pools);
  pools.erase(std::unique(pools.begin(), pools.end()), pools.end());
  for (int64_t pool : pools) {
    if (pool >= static_cast<int64_t>(script.environments.size())) continue;
    if (script.environments[pool].empty()) continue;
    absl::StrAppend(&cases, "  ", pool, ")\n");
    for (const EnvironmentAction& action : script.environments[pool]) {
      const char* verb = action.kind == EnvironmentAction::Kind::kForce    ? "force"
                         : action.kind == EnvironmentAction::Kind::kPrefer ? "prefer"
                                                                           : "refuse";
      absl::StrAppend(&cases, "    ", verb, " ", action.name, " ", ShellQuote(action.value), "\n");
    }
    absl::StrAppend(&cases, "    ;;\n");
  }
  if (cases.empty()) return "\nenvironment=()\n";
  return absl::StrCat(kEnvironment, "\n# What the accelerators of the node's pool need.\n", table,
                      "environment=()\ncase ${node_pool[node_rank]} in\n", cases, "esac\n");
}

}  // namespace

std::string RenderLaunchScript(const LaunchScript& script) {
  const PlannedArguments& arguments = script.arguments;
  const std::vector<int64_t> node_recompute = RecomputeOfNodes(script);
  const Choice choice = arguments.recompute.size() == 1 ? Choice::kSame
                        : node_recompute.empty()        ? Choice::kByProcess
                                                        : Choice::kByNode;

  std::string text = absl::StrCat(
      "#!/usr/bin/env bash\n#\n# Starts one node of a ", script.engine, kUsage, Summary(script),
      "set -euo pipefail\n\nreadonly entry=", ShellQuote(script.entry),
      "\nreadonly world_size=", script.plan.world_size(), "\n\n", NodeTable(script),
      "\n# The job's own arguments.\n", Array("job_arguments", arguments.job), "\n# The plan's.\n",
      Array("plan_arguments", arguments.plan));
  switch (choice) {
    case Choice::kSame:
      absl::StrAppend(&text, "recompute=(",
                      ShellQuote(absl::MakeConstSpan(arguments.recompute.front())), ")\n");
      break;
    case Choice::kByNode:
      absl::StrAppend(&text, "\n", Integers("node_recompute", node_recompute));
      break;
    case Choice::kByProcess:
      absl::StrAppend(&text, "\n", Integers("stage_recompute", arguments.stage_recompute));
      break;
  }
  if (choice != Choice::kSame) absl::StrAppend(&text, ChooseRecomputeFunction(arguments));
  absl::StrAppend(&text, StageOfRankFunction(script.plan), kCommon);
  if (choice == Choice::kByProcess) absl::StrAppend(&text, kWorker);
  absl::StrAppend(&text, kMain, SharesHosts(script.nodes) ? kSharedHosts : "", kNodeRank,
                  script.preparation);
  if (!script.backend.empty()) {
    absl::StrAppend(&text, "\nreadonly backend=", ShellQuote(script.backend),
                    "\nreadonly needs=", ShellQuote(script.needs), kConfirm);
  }
  absl::StrAppend(&text, SetEnvironment(script), kCommand);
  if (choice == Choice::kByProcess) {
    absl::StrAppend(&text, kCommandByProcess);
  } else {
    absl::StrAppend(&text, choice == Choice::kByNode ? kCommandByNode : "", kCommandPlain);
  }
  absl::StrAppend(&text, kDryRunStart);
  if (choice == Choice::kByProcess) {
    absl::StrAppend(&text, "    choose_recompute \"${stage_recompute[stage]}\"\n");
  }
  absl::StrAppend(&text, kDryRunEnd);
  if (choice == Choice::kByProcess) absl::StrAppend(&text, "export HAPMOE_WORKER=1\n");
  return absl::StrCat(text, "exec \"${command[@]}\"\n");
}

}  // namespace hapmoe::engine
