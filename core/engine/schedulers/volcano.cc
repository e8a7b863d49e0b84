// volcano.yaml: volcano-sh/volcano, batch.volcano.sh/v1alpha1.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/schedulers/kubernetes.h"
#include "core/engine/schedulers/schedulers.h"

namespace hapmoe::engine {
namespace {

Yaml Task(const LauncherInput& input, const SchedulerOptions& options, const NodeGroup& group,
          size_t index, const std::string& master) {
  Yaml task = Yaml::Map();
  task.Set("name", GroupName(index))
      .Set("replicas", Yaml::Number(group.nodes()))
      .Set("minAvailable", Yaml::Number(group.nodes()))
      .Set("template", PodTemplate(input, options, group, "VC_TASK_INDEX", master));
  return task;
}

Yaml Policy(absl::string_view event, absl::string_view action) {
  Yaml policy = Yaml::Map();
  policy.Set("event", event).Set("action", action);
  return policy;
}

}  // namespace

absl::StatusOr<Artifact> RenderVolcano(const LauncherInput& input, const SchedulerOptions& options,
                                       const std::vector<Artifact>& launcher) {
  HAPMOE_ASSIGN_OR_RETURN(const Yaml config_map, LaunchConfigMap(options, launcher));
  // The plugin svc names pods JOB-TASK-INDEX and their service as the job.
  const std::string master = absl::StrCat(options.name, "-", GroupName(0), "-0.", options.name);
  Yaml tasks = Yaml::List();
  const std::vector<NodeGroup> groups = NodeGroups(input.nodes);
  for (size_t i = 0; i < groups.size(); ++i) {
    tasks.Add(Task(input, options, groups[i], i, master));
  }
  const int64_t restarts = RestartsOf(options, input.arguments);
  const char* const on_failure = restarts > 0 ? "RestartJob" : "AbortJob";
  Yaml plugins = Yaml::Map();
  plugins
      .Set("env", Yaml::List())
      // Pods look for the first one before any of them is ready.
      .Set("svc", Yaml::TextList({"--publish-not-ready-addresses=true"}));
  Yaml spec = Yaml::Map();
  spec.Set("schedulerName", "volcano");
  if (!options.queue.empty()) spec.Set("queue", options.queue);
  spec.Set("minAvailable", Yaml::Number(static_cast<int64_t>(input.nodes.nodes.size())));
  // 0 would be read as left out.
  if (restarts > 0) spec.Set("maxRetry", Yaml::Number(restarts));
  spec.Set("plugins", plugins)
      .Set("policies",
           Yaml::List().Add(Policy("PodFailed", on_failure)).Add(Policy("PodEvicted", on_failure)))
      .Set("tasks", tasks);
  Yaml job = Yaml::Map();
  job.Set("apiVersion", "batch.volcano.sh/v1alpha1")
      .Set("kind", "Job")
      .Set("metadata", Metadata(options, ""))
      .Set("spec", spec);
  return Artifact{"volcano.yaml",
                  "Starts the job as a Job of Volcano, one task for each run of nodes of one pool, "
                  "all nodes or none.",
                  absl::StrCat(config_map.Document(), "---\n", job.Document())};
}

}  // namespace hapmoe::engine
