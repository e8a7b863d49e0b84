// jobset.yaml: kubernetes-sigs/jobset, jobset.x-k8s.io/v1alpha2.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/schedulers/kubernetes.h"
#include "core/engine/schedulers/schedulers.h"

namespace hapmoe::engine {
namespace {

// One job of indexed pods, all at once.
Yaml ReplicatedJob(const LauncherInput& input, const SchedulerOptions& options,
                   const NodeGroup& group, size_t index, const std::string& master) {
  Yaml spec = Yaml::Map();
  spec.Set("completionMode", "Indexed")
      .Set("completions", Yaml::Number(group.nodes()))
      .Set("parallelism", Yaml::Number(group.nodes()))
      // A node that fails takes the whole job with it: the JobSet starts it anew, or nobody.
      .Set("backoffLimit", Yaml::Number(0))
      .Set("template", PodTemplate(input, options, group, "JOB_COMPLETION_INDEX", master));
  Yaml job = Yaml::Map();
  job.Set("name", GroupName(index))
      .Set("replicas", Yaml::Number(1))
      .Set("template", Yaml::Map().Set("spec", spec));
  return job;
}

}  // namespace

absl::StatusOr<Artifact> RenderJobSet(const LauncherInput& input, const SchedulerOptions& options,
                                      const std::vector<Artifact>& launcher) {
  HAPMOE_ASSIGN_OR_RETURN(const Yaml config_map, LaunchConfigMap(options, launcher));
  const std::string subdomain = options.service_name.empty() ? options.name : options.service_name;
  // A pod's host name is JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX.
  const std::string master = absl::StrCat(options.name, "-", GroupName(0), "-0-0.", subdomain);
  Yaml jobs = Yaml::List();
  const std::vector<NodeGroup> groups = NodeGroups(input.nodes);
  for (size_t i = 0; i < groups.size(); ++i) {
    jobs.Add(ReplicatedJob(input, options, groups[i], i, master));
  }
  Yaml network = Yaml::Map();
  network.Set("enableDNSHostnames", Yaml::Flag(true))
      .Set("subdomain", subdomain)
      // Pods look for the first one before any of them is ready.
      .Set("publishNotReadyAddresses", Yaml::Flag(true));
  Yaml spec = Yaml::Map();
  spec.Set("network", network)
      // The processes wait for each other; groups in order would be started one by one.
      .Set("startupPolicy", Yaml::Map().Set("startupPolicyOrder", "AnyOrder"))
      .Set("successPolicy", Yaml::Map().Set("operator", "All"))
      .Set("failurePolicy",
           Yaml::Map().Set("maxRestarts", Yaml::Number(RestartsOf(options, input.arguments))))
      .Set("replicatedJobs", jobs);
  Yaml metadata = Metadata(options, "");
  if (!options.queue.empty()) {
    metadata.Set("labels", Yaml::Map().Set("kueue.x-k8s.io/queue-name", options.queue));
  }
  Yaml job_set = Yaml::Map();
  job_set.Set("apiVersion", "jobset.x-k8s.io/v1alpha2")
      .Set("kind", "JobSet")
      .Set("metadata", metadata)
      .Set("spec", spec);
  return Artifact{"jobset.yaml",
                  "Starts the job as a JobSet of Kubernetes, one replicated job for each run of "
                  "nodes of one pool.",
                  absl::StrCat(config_map.Document(), "---\n", job_set.Document())};
}

}  // namespace hapmoe::engine
