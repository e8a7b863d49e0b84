#include "server/metrics/metrics.h"

#include <algorithm>
#include <utility>

#include "core/plan/megatron_rules.h"
#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

constexpr absl::string_view kCodeNames[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

constexpr char kOtherRule[] = "other";
constexpr char kOtherType[] = "other";

Buckets DurationBuckets() {
  return {5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025,
          0.05, 0.1,  0.25,   0.5,  1,    2.5,    5,    10,   30};
}

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

// Brings the gauges up to date when metrics are read. Comes before the registry that holds them.
class Metrics::GaugeReader : public prometheus::Collectable {
 public:
  explicit GaugeReader(std::vector<GaugeSource> sources) : sources_(std::move(sources)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    for (const GaugeSource& source : sources_) source.gauge->Set(source.read());
    return {};
  }

 private:
  const std::vector<GaugeSource> sources_;
};

Metrics::Metrics(absl::string_view version, absl::string_view commit,
                 absl::Span<const absl::string_view> lookups)
    : registry_(std::make_shared<prometheus::Registry>()) {
  auto& calls = BuildCounter()
                    .Name("hapmoe_requests_total")
                    .Help("Calls answered, by method and status code.")
                    .Register(*registry_);
  auto& durations = BuildHistogram()
                        .Name("hapmoe_request_duration_seconds")
                        .Help("Time from a call's arrival to its answer.")
                        .Register(*registry_);
  for (size_t method = 0; method < kMethods; ++method) {
    const std::string name(kMethodNames[method]);
    for (size_t code = 0; code < kCodes; ++code) {
      calls_[method][code] =
          &calls.Add({{"method", name}, {"code", std::string(kCodeNames[code])}});
    }
    for (size_t outcome = 0; outcome < kOutcomes; ++outcome) {
      durations_[method][outcome] = &durations.Add(
          {{"method", name}, {"outcome", std::string(kOutcomeNames[outcome])}}, DurationBuckets());
    }
  }
  auto& errors = BuildCounter()
                     .Name("hapmoe_errors_total")
                     .Help("Calls that failed, by reason.")
                     .Register(*registry_);
  for (size_t i = 0; i < std::size(kReasons); ++i) {
    errors_[i] = &errors.Add({{"reason", std::string(kReasons[i].wire)}});
  }
  overrun_ = &BuildHistogram()
                  .Name("hapmoe_deadline_overrun_seconds")
                  .Help("Calls answered after their deadline, by how long after it.")
                  .Register(*registry_)
                  .Add({}, Buckets{1e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30});
  queue_wait_ = &BuildHistogram()
                     .Name("hapmoe_queue_wait_seconds")
                     .Help("Time that calls wait for a thread.")
                     .Register(*registry_)
                     .Add({}, DurationBuckets());
  auto& cached =
      BuildCounter()
          .Name("hapmoe_cache_lookups_total")
          .Help("Calls that asked for a search without a fault, by how they were answered.")
          .Register(*registry_);
  for (const absl::string_view lookup : lookups) {
    cache_lookups_.push_back(&cached.Add({{"result", std::string(lookup)}}));
  }
  auto& candidates = BuildCounter()
                         .Name("hapmoe_search_candidates_total")
                         .Help("Candidates of searches that ended, by what became of them.")
                         .Register(*registry_);
  candidates_opened_ = &candidates.Add({{"result", "opened"}});
  candidates_pruned_ = &candidates.Add({{"result", "pruned"}});
  auto& terminations = BuildCounter()
                           .Name("hapmoe_search_termination_total")
                           .Help("Searches that ended, by how they did.")
                           .Register(*registry_);
  for (const char* reason :
       {"optimal", "incumbent", "infeasible", "deadline", "memory", "cancelled", "failed"}) {
    terminations_[reason] = &terminations.Add({{"reason", reason}});
  }
  auto& infeasible = BuildCounter()
                         .Name("hapmoe_infeasible_total")
                         .Help("Searches that found that nothing fits, by the rule that binds.")
                         .Register(*registry_);
  for (const plan::Rule& rule : plan::MegatronRules()) {
    infeasible_[std::string(rule.name)] = nullptr;
  }
  // What core/search names beside the engine's rules.
  for (const char* rule :
       {"memory", "host_memory", "no_degrees_allowed", "every_stage_holds_a_layer", "constraint_pp",
        "deadline", "throughput", kOtherRule})
    infeasible_[rule] = nullptr;
  for (auto& [rule, counter] : infeasible_) counter = &infeasible.Add({{"rule", rule}});
  peak_memory_ = &BuildHistogram()
                      .Name("hapmoe_predicted_peak_memory_ratio")
                      .Help("Predicted peak over budget of the fullest stage of plans found.")
                      .Register(*registry_)
                      .Add({}, Buckets{0.25, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1});
  reload_failures_ = &BuildCounter()
                          .Name("hapmoe_profile_reload_failures_total")
                          .Help("Profile files and records that were refused.")
                          .Register(*registry_)
                          .Add({});
  last_reload_ = &BuildGauge()
                      .Name("hapmoe_profile_last_reload_timestamp_seconds")
                      .Help("When profiles were last read from files.")
                      .Register(*registry_)
                      .Add({});
  BuildGauge()
      .Name("hapmoe_build_info")
      .Help("1, with the version and commit that this server was built from.")
      .Register(*registry_)
      .Add({{"version", std::string(version)}, {"commit", std::string(commit)}})
      .Set(1);
}

void Metrics::RecordCall(Method method, const absl::Status& status, CallOutcome outcome,
                         std::chrono::nanoseconds duration) {
  const auto index = static_cast<size_t>(method);
  const auto code = std::min(static_cast<size_t>(status.code()), kCodes - 1);
  calls_[index][code]->Increment();
  durations_[index][static_cast<size_t>(outcome)]->Observe(Seconds(duration));
  if (!status.ok()) errors_[static_cast<size_t>(ReasonOf(status))]->Increment();
}

void Metrics::RecordOverrun(std::chrono::nanoseconds overrun) {
  overrun_->Observe(Seconds(overrun));
}

void Metrics::RecordQueueWait(std::chrono::nanoseconds wait) {
  queue_wait_->Observe(Seconds(wait));
}

void Metrics::RecordAnswer(const v1::PlanAnswer& answer) {
  const v1::SearchStatistics& statistics = answer.termination().statistics();
  candidates_opened_->Increment(static_cast<double>(statistics.candidates_opened()));
  for (const v1::PrunedCount& pruned : statistics.pruned()) {
    candidates_pruned_->Increment(static_cast<double>(pruned.candidates()));
  }
  const bool optimal = answer.termination().reason() == v1::Termination::REASON_OPTIMAL;
  const bool memory = answer.termination().limit() == v1::Termination::LIMIT_MEMORY;
  terminations_.at(optimal ? "optimal" : memory ? "memory" : "incumbent")->Increment();
  double peak = 0;
  for (const v1::Mesh& mesh : answer.plan().meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      const auto budget = static_cast<double>(stage.memory().budget_bytes());
      if (budget > 0)
        peak = std::max(peak, static_cast<double>(stage.memory().peak_bytes()) / budget);
    }
  }
  peak_memory_->Observe(peak);
}

void Metrics::RecordSearchError(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kNoPlanFits: {
      terminations_.at("infeasible")->Increment();
      const auto rule = infeasible_.find(MetadataOf(status, "rule"));
      (rule == infeasible_.end() ? infeasible_.at(kOtherRule) : rule->second)->Increment();
      return;
    }
    case Reason::kSearchTooLarge:
      return terminations_.at("memory")->Increment();
    case Reason::kDeadlinePassed:
      return terminations_.at("deadline")->Increment();
    case Reason::kCallCancelled:
      return terminations_.at("cancelled")->Increment();
    case Reason::kInternalFault:
      return terminations_.at("failed")->Increment();
    default:
      return;  // Refused before there was a search.
  }
}

void Metrics::RecordRefused(size_t records) {
  reload_failures_->Increment(static_cast<double>(records));
}

void Metrics::RecordReload(size_t failures) {
  RecordRefused(failures);
  last_reload_->SetToCurrentTime();
}

void Metrics::AddReportedTypes(const std::vector<std::string>& accelerators) {
  auto& ratios = BuildHistogram()
                     .Name("hapmoe_report_time_ratio")
                     .Help("Measured over predicted time of iterations that were reported.")
                     .Register(*registry_);
  const Buckets buckets = {0.5,  0.67, 0.8, 0.87, 0.91, 0.95, 0.98, 1,
                           1.02, 1.05, 1.1, 1.15, 1.25, 1.5,  2};
  std::vector<std::string> names = accelerators;
  names.emplace_back(kOtherType);
  for (const std::string& name : names) {
    reported_[name] = {&ratios.Add({{"accelerator", name}, {"prediction", "profiles"}}, buckets),
                       &ratios.Add({{"accelerator", name}, {"prediction", "corrected"}}, buckets)};
  }
}

void Metrics::RecordReport(const std::vector<std::string>& accelerators, double ratio_of_profiles,
                           double ratio_of_corrected) {
  for (const std::string& accelerator : accelerators) {
    auto reported = reported_.find(accelerator);
    if (reported == reported_.end()) reported = reported_.find(kOtherType);
    if (reported == reported_.end()) continue;
    reported->second.of_profiles->Observe(ratio_of_profiles);
    reported->second.of_corrected->Observe(ratio_of_corrected);
  }
}

void Metrics::AddGauge(const std::string& name, const std::string& help,
                       const std::map<std::string, std::string>& labels,
                       std::function<double()> read) {
  auto& family = BuildGauge().Name(name).Help(help).Register(*registry_);
  gauges_.push_back({&family.Add(labels), std::move(read)});
}

std::vector<std::shared_ptr<prometheus::Collectable>> Metrics::collectables() const {
  return {std::make_shared<GaugeReader>(gauges_), registry_};
}

}  // namespace hapmoe::server
