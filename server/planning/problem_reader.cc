#include "server/planning/problem_reader.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/plan/megatron_rules.h"
#include "server/errors/errors.h"
#include "server/planning/layout.h"

namespace hapmoe::server {
namespace {

// The search grows with the square of the layers; the deepest models published have about 130.
constexpr int64_t kMaxSearchedLayers = 256;

// Micro-batch sizes that are tried where the caller leaves the choice to the planner.
const std::vector<int64_t>& AnyMicroBatch() {
  static const auto& choices = *new std::vector<int64_t>{1, 2, 4, 8};
  return choices;
}

// Profiles of the pools, in order; null where there is none.
Profiles FindProfiles(const cluster::Cluster& cluster, const ProfileCatalog& catalog) {
  Profiles profiles;
  for (const cluster::Pool& pool : cluster.pools) {
    const ProfileEntryPtr entry = catalog.Find(pool.accelerator);
    profiles.push_back(entry == nullptr ? nullptr : entry->core);
  }
  return profiles;
}

absl::Status CheckProfiles(const cluster::Cluster& cluster, const Profiles& profiles,
                           const ProfileCatalog& catalog) {
  std::map<std::string, MissingProfile> missing;  // By key: two pools may lack the same type.
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (profiles[i] != nullptr) continue;
    const std::string& name = cluster.pools[i].accelerator;
    missing.emplace(ProfileKey(name), MissingProfile{name, catalog.Nearest(name)});
  }
  if (missing.empty()) return absl::OkStatus();
  std::vector<MissingProfile> list;
  list.reserve(missing.size());
  for (auto& [key, entry] : missing) list.push_back(std::move(entry));
  return ProfileNotFoundError(list);
}

// The rules' view of where a job runs. Profiles that are missing count as none: what they would
// change is told when they are there.
engine::Surroundings SurroundingsOf(int64_t world_size, const Profiles& profiles) {
  engine::Surroundings surroundings;
  surroundings.world_size = world_size;
  Profiles known;
  for (const auto& profile : profiles) {
    if (profile != nullptr) known.push_back(profile);
  }
  if (!known.empty()) surroundings.architecture = OldestComputeCapability(known);
  return surroundings;
}

const EngineCapabilities* FindEngine(const std::string& name, const EngineCatalog& engines,
                                     Violations& violations) {
  // Other engines are known, but nothing here writes their launchers yet.
  const EngineCapabilities* engine = name == kDefaultEngine ? engines.Find(name) : nullptr;
  if (engine == nullptr) {
    violations.push_back({"engine_known", "constraints.engine",
                          absl::StrCat("Must be \"", kDefaultEngine, "\", not \"", name, "\".")});
  }
  return engine;
}

// Paths within `message` of a request, as paths of the request. Options of the job stay as they
// are.
void AddPrefix(absl::string_view message, Violations& violations) {
  for (Violation& violation : violations) {
    if (!absl::StartsWith(violation.field, "-") && violation.field != "request_id") {
      violation.field = absl::StrCat(message, violation.field);
    }
  }
}

void Append(Violations added, Violations& violations) {
  for (Violation& violation : added) violations.push_back(std::move(violation));
}

// Fills in what the job and the cluster say; faults are appended. Returns the number of
// accelerators, 0 where the cluster has faults: its sizes may then be anything.
int64_t ReadJobAndCluster(const v1::Job& job, const v1::Cluster& cluster, ReadProblem& read,
                          Violations& violations) {
  const size_t faults_before = violations.size();
  read.problem.cluster = ClusterFromWire(cluster, violations);
  const size_t faults = violations.size();
  const int64_t accelerators = faults == faults_before ? read.problem.cluster.accelerators() : 0;
  JobArguments arguments = JobFromWire(job, violations);
  read.entry = std::move(arguments.entry);
  if (arguments.any_micro_batch && read.limits.constraints.micro_batch.empty()) {
    read.limits.constraints.micro_batch = AnyMicroBatch();
  }
  // Arguments that were refused are not parsed: every option would be missing.
  if (violations.size() > faults) return accelerators;
  read.job = engine::ParseMegatronJob(arguments.megatron_args, violations);
  read.problem.model = read.job.model;
  read.problem.training = read.job.training;
  read.problem.training.imbalance_quantile = ImbalanceQuantileFromWire(job, violations);
  if (read.job.complete) {
    read.problem.training.router_statistics =
        RouterStatisticsFromWire(job, read.job.model, violations);
  }
  return accelerators;
}

}  // namespace

absl::StatusOr<ReadProblem> ReadPlanRequest(const std::string& request_id,
                                            const v1::Problem& problem,
                                            const ProfileCatalog& catalog,
                                            const EngineCatalog& engines) {
  ReadProblem read;
  Violations violations;
  CheckRequestId(request_id, violations);
  read.limits = ConstraintsFromWire(problem.constraints(), violations);
  read.engine = FindEngine(read.limits.engine, engines, violations);
  const int64_t accelerators =
      ReadJobAndCluster(problem.job(), problem.cluster(), read, violations);
  read.problem.profiles = FindProfiles(read.problem.cluster, catalog);
  read.problem.memory_headroom_ratio = read.limits.memory_headroom_ratio;
  Append(engine::CheckMegatronJob(read.job, SurroundingsOf(accelerators, read.problem.profiles),
                                  plan::kJobScope),
         violations);
  if (read.job.complete && read.job.model.layers > kMaxSearchedLayers) {
    violations.push_back(
        {"layers_searchable", "--num-layers",
         absl::StrCat("Splits of at most ", kMaxSearchedLayers, " layers are searched, not of ",
                      read.job.model.layers, "; evaluate costs a layout of any number.")});
  }
  if (read.job.complete && !read.job.facts.global_batch_given) {
    // It would follow the data parallel degree, and plans would not train alike.
    violations.push_back({"global_batch_given", "--global-batch-size",
                          "A job to be planned must give --global-batch-size."});
  }
  if (!violations.empty()) {
    AddPrefix("problem.", violations);
    return InvalidError(Reason::kRequestInvalid, violations);
  }
  HAPMOE_RETURN_IF_ERROR(CheckProfiles(read.problem.cluster, read.problem.profiles, catalog));
  return read;
}

absl::StatusOr<ReadLayout> ReadEvaluateRequest(const v1::EvaluateRequest& request,
                                               const ProfileCatalog& catalog,
                                               const EngineCatalog& engines) {
  ReadLayout layout;
  ReadProblem& read = layout.problem;
  Violations violations;
  CheckRequestId(request.request_id(), violations);
  read.limits.engine = kDefaultEngine;
  read.engine = FindEngine(read.limits.engine, engines, violations);
  read.problem.memory_headroom_ratio = HeadroomFromWire(
      request.has_memory_headroom_ratio() ? std::optional<double>(request.memory_headroom_ratio())
                                          : std::nullopt,
      "memory_headroom_ratio", violations);
  const int64_t accelerators =
      ReadJobAndCluster(request.job(), request.cluster(), read, violations);
  read.problem.profiles = FindProfiles(read.problem.cluster, catalog);
  const int64_t world_size = request.world_size() == 0 ? accelerators : request.world_size();
  const bool world_known = accelerators > 0 && world_size > 0 && world_size <= accelerators;
  if (!world_known && accelerators > 0) {
    violations.push_back({"world_size_in_range", "world_size",
                          absl::StrCat("Must be at least 0 and at most the ", accelerators,
                                       " accelerators of the cluster, not ", world_size, ".")});
  }
  const Reason reason = violations.empty() ? Reason::kLayoutInvalid : Reason::kRequestInvalid;
  if (world_known) {
    Append(engine::CheckMegatronJob(read.job, SurroundingsOf(world_size, read.problem.profiles)),
           violations);
  }
  if (!violations.empty()) return InvalidError(reason, violations);
  HAPMOE_RETURN_IF_ERROR(CheckProfiles(read.problem.cluster, read.problem.profiles, catalog));
  layout.plan =
      SplitByPool(engine::PlanFromJob(read.job, world_size), read.problem.cluster, violations);
  if (!violations.empty()) return InvalidError(Reason::kLayoutInvalid, violations);
  return layout;
}

}  // namespace hapmoe::server
