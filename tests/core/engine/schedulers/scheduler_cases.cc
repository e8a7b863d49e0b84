#include "tests/core/engine/schedulers/scheduler_cases.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/status_macros.h"
#include "core/plan/engine_traits.h"
#include "gtest/gtest.h"

namespace hapmoe::engine {
namespace {

Placement PlacementOf(const std::string& accelerator) {
  Placement placement;
  const bool huawei = absl::StartsWith(accelerator, "ascend");
  placement.gres = huawei ? "npu" : "gpu";
  placement.resource = huawei ? "huawei.com/Ascend910" : "nvidia.com/gpu";
  placement.partition = huawei ? "npu" : "gpu";
  placement.constraint = huawei ? "" : accelerator;
  if (huawei) {
    placement.node_selector = {{"accelerator-type", "module-910b-8"}};
    placement.image = "registry.example/mindspeed:1";
    placement.pod_labels = {{"ring-controller.atlas", "ascend-910b"}};
    placement.tolerations = {{"vendor", "Equal", "huawei", "NoSchedule"},
                             {"npu", "Exists", "", ""}};
  } else {
    placement.node_selector = {{"nvidia.com/gpu.product", accelerator}};
    placement.resources = {{"rdma/hca", "1"}, {"memory", "900Gi"}};
  }
  return placement;
}

}  // namespace

LauncherCase LauncherCaseOf(const std::string& name) {
  for (LauncherCase& launcher_case : LauncherCases()) {
    if (launcher_case.name == name) return launcher_case;
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

std::vector<LauncherCase> SchedulerCases() {
  std::vector<LauncherCase> cases;
  for (const char* name : {"llama8b_interleaved_4x8", "mixtral_h800_a100_6x8",
                           "mixtral_h800_ascend_4x8", "llama8b_unequal_nodes_1x8_2x4",
                           "llama8b_there_and_back_4x8", "gpt2_stages_in_a_node_differ_1x8"}) {
    cases.push_back(LauncherCaseOf(name));
  }
  return cases;
}

std::vector<LauncherCase> EngineCases() {
  const std::map<std::string, const char*> names = {
      {plan::kMegatronBridge, "llama8b_interleaved_4x8"},
      {plan::kPrimus, "gpt2_stages_in_a_node_differ_1x8"},
      {plan::kMindSpeedLlm, "llama8b_unequal_nodes_1x8_2x4"}};
  std::vector<LauncherCase> cases;
  for (const plan::EngineTraits& engine : plan::Engines()) {
    const std::string name(engine.name);
    if (engine.starts_other_hosts || name == plan::kMegatronLm) continue;
    LauncherCase launcher_case = LauncherCaseOf(names.at(name));
    launcher_case.name = name;
    launcher_case.plan.engine = name;
    cases.push_back(std::move(launcher_case));
  }
  return cases;
}

SchedulerOptions OptionsFor(Scheduler scheduler, const cluster::Cluster& cluster) {
  SchedulerOptions options;
  options.scheduler = scheduler;
  options.name = "train";
  options.master_port = 29500;
  options.restarts_of_resuming_jobs = 3;
  options.signal_of_saving_jobs = "TERM@120";
  options.environment = {{"HAPMOE_CONFIRM_BACKEND", "flagcx"},
                         {"GREETING", "it's 5 $, \"all\" of it"}};
  if (scheduler == Scheduler::kSlurm) {
    options.account = "llm";
    options.time_limit = "2-00:00:00";
  } else {
    options.kube_namespace = "ml";
    options.queue = "training";
    options.image = "registry.example/megatron:1";
    options.working_directory = "/workspace/Megatron-LM";
    options.shared_memory = "64Gi";
    options.volumes = {{"data", "/data", "", "corpus", true},
                       {"scratch", "/scratch", "/nvme", "", false}};
    options.capabilities = {"IPC_LOCK"};
  }
  for (const cluster::Pool& pool : cluster.pools) {
    options.pools.push_back(PlacementOf(pool.accelerator));
  }
  return options;
}

absl::StatusOr<RenderedCase> RenderWithScheduler(const LauncherCase& launcher_case,
                                                 const SchedulerOptions& options) {
  Violations violations;
  CheckSchedulerOptions(options, launcher_case.cluster, violations);
  if (!violations.empty()) return absl::InvalidArgumentError(violations.front().message);
  HAPMOE_ASSIGN_OR_RETURN(RenderedCase rendered, Render(launcher_case));
  const LauncherInput input{
      rendered.arguments,  launcher_case.plan,         launcher_case.cluster,     rendered.nodes,
      launcher_case.entry, launcher_case.environments, launcher_case.requirements};
  HAPMOE_ASSIGN_OR_RETURN(Artifact file, RenderScheduler(input, options, rendered.artifacts));
  rendered.artifacts.push_back(std::move(file));
  return rendered;
}

}  // namespace hapmoe::engine
