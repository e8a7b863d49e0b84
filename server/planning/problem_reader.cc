#include "server/planning/problem_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/launchers.h"
#include "core/plan/engine_traits.h"
#include "core/plan/flagscale_rules.h"
#include "core/plan/megatron_rules.h"
#include "server/errors/errors.h"
#include "server/planning/layout.h"

namespace hapmoe::server {
namespace {

// The search grows with the square of the layers; the deepest models published have about 130.
constexpr int64_t kMaxSearchedLayers = 256;

// Sizes of allocations are spaced so that an objective takes no more searches than this.
constexpr int64_t kMaxChoices = 64;

// Micro-batch sizes that are tried where the caller leaves the choice to the planner.
const std::vector<int64_t>& AnyMicroBatch() {
  static const auto& choices = *new std::vector<int64_t>{1, 2, 4, 8};
  return choices;
}

// Dispatchers that are tried where the job does not say which, the engine's default first. The
// third needs a library that a job does not have unless it says so.
const std::vector<model::Dispatcher>& AnyDispatcher() {
  static const auto& choices = *new std::vector<model::Dispatcher>{model::Dispatcher::kAllGather,
                                                                   model::Dispatcher::kAllToAll};
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
    if (profile == nullptr) continue;
    known.push_back(profile);
    surroundings.fuses_attention &= profile->fused_attention;
  }
  if (!known.empty()) surroundings.architecture = OldestComputeCapability(known);
  return surroundings;
}

// The engines that a name stands for.
std::vector<ReadEngine> FindEngines(const std::string& name, const EngineCatalog& engines,
                                    Violations& violations) {
  const std::vector<std::string> launched = LaunchedEngines();
  std::vector<ReadEngine> found;
  for (const std::string& one : launched) {
    const EngineCapabilities* capabilities = engines.Find(one);
    if (capabilities == nullptr || (name != kAnyEngine && name != one)) continue;
    found.push_back({one, capabilities});
  }
  if (found.empty()) {
    violations.push_back({"engine_known", "constraints.engine",
                          absl::StrCat("Must be \"", absl::StrJoin(launched, "\", \""),
                                       "\" or \"any\", not \"", name, "\".")});
  }
  return found;
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
  search::Constraints& constraints = read.limits.constraints;
  if (!read.job.facts.dispatcher_given && constraints.dispatchers.empty()) {
    constraints.dispatchers = AnyDispatcher();
  }
  read.problem.model = read.job.model;
  read.problem.training = read.job.training;
  read.problem.training.imbalance_quantile = ImbalanceQuantileFromWire(job, violations);
  if (read.job.complete) {
    read.problem.training.router_statistics =
        RouterStatisticsFromWire(job, read.job.model, violations);
  }
  return accelerators;
}

// Pools of one vendor that share a host must not share a device. Vendors count theirs apart.
void CheckSharedHosts(const ReadProblem& read, Violations& violations) {
  const std::vector<cluster::Pool>& pools = read.problem.cluster.pools;
  std::map<std::pair<std::string, std::string>, std::map<int64_t, size_t>> taken;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (read.problem.profiles[i] == nullptr || pools[i].devices.empty()) continue;
    for (const std::string& host : pools[i].hosts) {
      auto& devices = taken[{read.problem.profiles[i]->vendor, absl::AsciiStrToLower(host)}];
      for (const int64_t device : pools[i].devices) {
        const auto [other, added] = devices.emplace(device, i);
        if (added || other->second == i) continue;
        violations.push_back(
            {"host_devices_disjoint", absl::StrCat("cluster.pools[", i, "].devices"),
             absl::StrCat("Device ", device, " of host \"", host, "\" is in pool \"",
                          pools[other->second].name, "\" too.")});
        return;
      }
    }
  }
}

// What the job and the cluster ask for and an engine does not run, whatever the plan.
Violations FaultsOf(const ReadEngine& engine, const ReadProblem& read) {
  Violations faults;
  std::set<std::string> vendors;
  for (const auto& profile : read.problem.profiles) {
    if (profile != nullptr) vendors.insert(profile->vendor);
  }
  for (const std::string& vendor : engine.capabilities->Unsupported(vendors)) {
    faults.push_back({"engine_runs_vendor", "constraints.engine",
                      absl::StrCat(engine.capabilities->display_name(), " does not run on ", vendor,
                                   "; leave such pools out, or take another engine.")});
  }
  Append(engine::CheckEngineOptions(engine.name, read.job.arguments), faults);
  if (!read.job.complete) return faults;
  model::TrainingSpec training = read.job.training;
  // Plans replace the job's recomputation unless they have to keep it.
  if (!read.limits.constraints.keep_recompute) training.recompute = {};
  const plan::EngineTraits& traits = *plan::FindEngine(engine.name);
  const bool shared_hosts =
      std::any_of(read.problem.cluster.pools.begin(), read.problem.cluster.pools.end(),
                  [](const cluster::Pool& pool) { return !pool.devices.empty(); });
  if (traits.degrees_per_stage && shared_hosts) {
    faults.push_back({"flagscale_host_in_one_pool", "cluster.pools",
                      "FlagScale starts all accelerators of a host as one type; it cannot be given "
                      "devices of a host."});
  }
  if (traits.degrees_per_stage) {
    Append(plan::CheckFlagScaleJob(read.job.model, training), faults);
  } else if (!traits.recomputes_modules &&
             training.recompute.granularity == model::Recompute::Granularity::kSelective) {
    faults.push_back({"recompute_is_full", "--recompute-granularity",
                      absl::StrCat(engine.capabilities->display_name(),
                                   " recomputes whole layers only, and the job's recomputation is "
                                   "to be kept.")});
  }
  return faults;
}

// Where no engine is left the faults of all of them are the request's.
void CheckEngines(ReadProblem& read, Violations& violations) {
  bool left = read.engines.empty();  // Told as such.
  for (ReadEngine& engine : read.engines) {
    engine.faults = FaultsOf(engine, read);
    left = left || engine.faults.empty();
  }
  if (left) return;
  for (const ReadEngine& engine : read.engines) {
    for (Violation fault : engine.faults) {
      // Which engine it is, where the sentence alone would not say.
      if (read.any_engine()) {
        fault.message = absl::StrCat(engine.capabilities->display_name(), ": ", fault.message);
      }
      violations.push_back(std::move(fault));
    }
  }
}

// A scheduler starts launch.sh on every node.
void CheckEnginesOfScheduler(ReadProblem& read, Violations& violations) {
  Violations faults;
  bool left = false;
  for (ReadEngine& engine : read.engines) {
    if (!engine.faults.empty()) continue;
    if (!plan::FindEngine(engine.name)->starts_other_hosts) {
      left = true;
      continue;
    }
    engine.faults.push_back(
        {"launch_engine_supported", "launch.scheduler",
         absl::StrCat(
             engine.capabilities->display_name(),
             " starts its hosts itself, over ssh. Plan without a scheduler and run "
             "launch.sh inside of an allocation whose hosts the cluster names, or plan for "
             "another engine.")});
    faults.push_back(engine.faults.back());
  }
  if (!left) Append(std::move(faults), violations);
}

// What the engine refuses of the job whatever the plan: with each of the dispatchers that plans may
// use, if there are any.
void CheckJob(const ReadProblem& read, const engine::Surroundings& surroundings,
              Violations& violations) {
  const auto check = [&](const engine::MegatronJob& job) {
    return engine::CheckMegatronJob(job, surroundings, plan::kJobScope);
  };
  Violations faults = check(read.job);
  engine::MegatronJob job = read.job;
  for (size_t i = 0; i < read.limits.constraints.dispatchers.size(); ++i) {
    job.training.dispatcher = read.limits.constraints.dispatchers[i];
    Violations with_dispatcher = check(job);
    if (with_dispatcher.empty()) return;
    if (i == 0) faults = std::move(with_dispatcher);
  }
  Append(std::move(faults), violations);
}

// Reads a problem to be planned; faults are appended, with paths of the request.
ReadProblem ReadProblemFields(const std::string& request_id, const v1::Problem& problem,
                              const ProfileCatalog& catalog, const EngineCatalog& engines,
                              Violations& violations) {
  ReadProblem read;
  CheckRequestId(request_id, violations);
  read.limits = ConstraintsFromWire(problem.constraints(), violations);
  read.objective = ObjectiveFromWire(problem.objective(), violations);
  read.catalog = &engines;
  read.engines = FindEngines(read.limits.engine, engines, violations);
  read.limits.constraints.engine = read.limits.engine;
  const int64_t accelerators =
      ReadJobAndCluster(problem.job(), problem.cluster(), read, violations);
  read.problem.profiles = FindProfiles(read.problem.cluster, catalog);
  read.problem.memory_headroom_ratio = read.limits.memory_headroom_ratio;
  CheckJob(read, SurroundingsOf(accelerators, read.problem.profiles), violations);
  CheckSharedHosts(read, violations);
  CheckEngines(read, violations);
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
  AddPrefix("problem.", violations);
  return read;
}

// The allocations that an objective picks from; none where it is time.
void ReadAllocations(ReadProblem& read, Violations& violations) {
  if (read.objective.kind == search::Objective::Kind::kTime) return;
  const cluster::Cluster& cluster = read.problem.cluster;
  const search::AllocationSizes sizes = search::FinestSizes(cluster, kMaxChoices);
  if (search::CountAllocations(sizes) > search::kMaxAllocations) {
    violations.push_back(
        {"allocations_in_range", "problem.cluster.pools",
         absl::StrCat("An objective other than time tries at most ", search::kMaxAllocations,
                      " allocations, and all nodes of each of ", cluster.pools.size(),
                      " pools or none make more.")});
    return;
  }
  read.allocations = search::AllocationsOf(sizes);
  if (read.objective.kind != search::Objective::Kind::kPrice) return;
  for (size_t i = 0; i < cluster.pools.size(); ++i) {
    if (cluster.pools[i].price_per_accelerator_hour.has_value()) continue;
    violations.push_back({"pool_price_given",
                          absl::StrCat("problem.cluster.pools[", i, "].price_per_accelerator_hour"),
                          absl::StrCat("The objective is price, and pool \"", cluster.pools[i].name,
                                       "\" has none.")});
  }
}

void CheckObjectiveIsTime(const ReadProblem& read, Violations& violations) {
  if (read.objective.kind == search::Objective::Kind::kTime) return;
  violations.push_back({"objective_is_time", "problem.objective.kind",
                        "Only Plan and StreamPlan take an objective other than time."});
}

absl::Status CheckRead(const ReadProblem& read, const Violations& violations,
                       const ProfileCatalog& catalog) {
  if (!violations.empty()) return InvalidError(Reason::kRequestInvalid, violations);
  return CheckProfiles(read.problem.cluster, read.problem.profiles, catalog);
}

}  // namespace

const EngineCapabilities& ReadProblem::EngineOf(const plan::Plan& plan) const {
  const auto found =
      std::find_if(engines.begin(), engines.end(),
                   [&plan](const ReadEngine& engine) { return engine.name == plan.engine; });
  return *(found == engines.end() ? engines.front() : *found).capabilities;
}

absl::StatusOr<ReadProblem> ReadPlanRequest(const std::string& request_id,
                                            const v1::Problem& problem,
                                            const ProfileCatalog& catalog,
                                            const EngineCatalog& engines,
                                            const LaunchRequest& launch) {
  Violations violations;
  ReadProblem read = ReadProblemFields(request_id, problem, catalog, engines, violations);
  read.scheduler =
      ReadLaunch(launch, read.problem.cluster, read.problem.profiles, catalog, violations);
  if (launch.names_scheduler()) CheckEnginesOfScheduler(read, violations);
  if (violations.empty()) ReadAllocations(read, violations);
  HAPMOE_RETURN_IF_ERROR(CheckRead(read, violations, catalog));
  return read;
}

absl::StatusOr<ReadProblem> ReadFrontierRequest(const v1::FrontierRequest& request,
                                                const ProfileCatalog& catalog,
                                                const EngineCatalog& engines) {
  Violations violations;
  ReadProblem read =
      ReadProblemFields(request.request_id(), request.problem(), catalog, engines, violations);
  CheckObjectiveIsTime(read, violations);
  if (request.memory_steps() > kMaxMemorySteps) {
    violations.push_back(
        {"memory_steps_in_range", "memory_steps",
         absl::StrCat("Must be at most ", kMaxMemorySteps, ", not ", request.memory_steps(), ".")});
  }
  read.memory_steps = request.memory_steps();
  // Sizes are about a cluster without faults.
  if (cluster::Validate(read.problem.cluster).empty()) {
    const search::AllocationSizes sizes =
        SizesFromWire(request.sizes(), read.problem.cluster, violations);
    if (violations.empty()) read.allocations = search::AllocationsOf(sizes);
  }
  HAPMOE_RETURN_IF_ERROR(CheckRead(read, violations, catalog));
  return read;
}

absl::StatusOr<ReadExplanation> ReadExplainRequest(const v1::ExplainRequest& request,
                                                   const ProfileCatalog& catalog,
                                                   const EngineCatalog& engines) {
  ReadExplanation read;
  Violations violations;
  read.problem =
      ReadProblemFields(request.request_id(), request.problem(), catalog, engines, violations);
  CheckObjectiveIsTime(read.problem, violations);
  HAPMOE_RETURN_IF_ERROR(CheckRead(read.problem, violations, catalog));
  v1::EvaluateRequest evaluate;
  evaluate.set_request_id(request.request_id());
  *evaluate.mutable_job() = request.problem().job();
  *evaluate.mutable_cluster() = request.problem().cluster();
  evaluate.set_world_size(request.world_size());
  evaluate.set_memory_headroom_ratio(read.problem.limits.memory_headroom_ratio);
  absl::StatusOr<ReadLayout> layout = ReadEvaluateRequest(evaluate, catalog, engines);
  if (layout.ok()) {
    read.layout = *std::move(layout);
  } else if (ReasonOf(layout.status()) == Reason::kLayoutInvalid) {
    read.layout_faults = ViolationsOf(layout.status());
  } else {
    return layout.status();
  }
  return read;
}

search::SearchRequest SearchRequestOf(const ReadProblem& read) {
  search::SearchRequest request;
  request.problem = read.problem;
  request.constraints = read.limits.constraints;
  request.facts = read.job.facts;
  // The engine overlaps dispatch across micro-batches with an interleaved schedule or a single
  // stage only. What a plan will have is not known yet, so it is costed without; the launcher
  // leaves the options out where they cannot be, and the answer says so.
  request.problem.training.overlap.expert_parallel = false;
  request.facts.delay_weight_gradient = false;
  return request;
}

void CheckPasses(const plan::Plan& plan, int64_t most, absl::string_view field,
                 Violations& violations) {
  const int64_t passes = plan.passes();
  if (passes <= most) return;
  violations.push_back({"passes_in_range", std::string(field),
                        absl::StrCat("Stages x virtual stages x micro-batches must be at most ",
                                     most, ", not ", passes, ".")});
}

absl::StatusOr<ReadLayout> ReadEvaluateRequest(const v1::EvaluateRequest& request,
                                               const ProfileCatalog& catalog,
                                               const EngineCatalog& engines) {
  ReadLayout layout;
  ReadProblem& read = layout.problem;
  Violations violations;
  CheckRequestId(request.request_id(), violations);
  read.limits.engine = kDefaultEngine;
  read.catalog = &engines;
  read.engines = FindEngines(read.limits.engine, engines, violations);
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
  const plan::Plan whole = engine::PlanFromJob(read.job, world_size);
  CheckPasses(whole, kMostPasses, "--global-batch-size", violations);
  layout.plan = SplitByPool(whole, read.problem.cluster, violations);
  if (!violations.empty()) return InvalidError(Reason::kLayoutInvalid, violations);
  return layout;
}

}  // namespace hapmoe::server
