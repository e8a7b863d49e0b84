#include "server/feedback/feedback_store.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "google/protobuf/message.h"
#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

constexpr size_t kMostKnownPlans = 512;
constexpr size_t kMostKnownBytes = size_t{16} << 20;

constexpr int32_t kDefaultPageSize = 50;
constexpr int32_t kMaxPageSize = 1000;
constexpr size_t kMostPageBytes = size_t{2} << 20;  // Reports hold plans of large clusters.

int64_t DayOf(absl::Time time) { return absl::ToUnixSeconds(time) / int64_t{86400}; }

// "r" and 16 hexadecimal digits, so that names sort by time.
std::string NameOf(int64_t number) { return absl::StrFormat("r%016x", number); }

std::optional<int64_t> NumberOf(const std::string& name) {
  if (name.size() != 17 || name[0] != 'r') return std::nullopt;
  int64_t number = 0;
  for (size_t i = 1; i < name.size(); ++i) {
    const char c = name[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    if (number >> 59 != 0) return std::nullopt;
    number = number * 16 + (digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

// The accelerator types that a report was made of, as it calls them: for one that fits no profile.
std::vector<std::string> WrittenTypes(const v1::IterationReport& report) {
  std::set<std::string> types;
  for (const v1::Mesh& mesh : report.plan().meshes()) {
    if (!mesh.accelerator().empty()) types.insert(ProfileKey(mesh.accelerator()));
  }
  if (types.empty()) {
    for (const v1::Pool& pool : report.cluster().pools()) {
      types.insert(ProfileKey(pool.accelerator()));
    }
  }
  return {types.begin(), types.end()};
}

}  // namespace

FeedbackStore::FeedbackStore(Options options)
    : options_(std::move(options)),
      known_(kMostKnownPlans, kMostKnownBytes),
      state_(std::make_shared<const State>()) {}

absl::StatusOr<std::unique_ptr<FeedbackStore>> FeedbackStore::Open(Options options) {
  std::unique_ptr<FeedbackStore> store(new FeedbackStore(std::move(options)));
  MutexLock lock(store->mutex_);
  HAPMOE_ASSIGN_OR_RETURN(ReportStorage::Contents contents, store->options_.storage->Load());
  store->faults_ = std::move(contents.faults);
  for (v1::StoredReport& stored : contents.reports) {
    const std::optional<int64_t> number = NumberOf(stored.name());
    if (!number.has_value()) {
      store->faults_.push_back({stored.name(), "not a name of a report"});
      continue;
    }
    store->last_name_ = std::max(store->last_name_, *number);
    store->reports_[stored.name()].report = std::move(*stored.mutable_report());
  }
  const absl::Time now = store->options_.clock();
  const std::shared_ptr<const ProfileCatalog> catalog = store->options_.profiles->catalog();
  // Removes nothing: profiles that are missing now may be back at the next start.
  store->ReadAll(*catalog, now);
  store->Show(*catalog, now);
  return store;
}

absl::StatusOr<v1::IterationReport> FeedbackStore::Complete(const v1::IterationReport& report) {
  if (report.plan_id().empty() || report.has_plan()) return report;
  std::optional<v1::IterationReport> ran = known_.Find(report.plan_id());
  const auto differs = [](const google::protobuf::Message& given,
                          const google::protobuf::Message& known) {
    return given.SerializeAsString() != known.SerializeAsString();
  };
  const bool another_job = ran.has_value() && report.has_job() && differs(report.job(), ran->job());
  const bool another_cluster =
      ran.has_value() && report.has_cluster() && differs(report.cluster(), ran->cluster());
  // A plan may be one of the same job in other words, which is checked when it is read. The layout
  // of another job's arguments is another layout.
  if (ran.has_value() && !ran->has_plan() && (another_job || another_cluster)) ran.reset();
  if (!ran.has_value()) {
    if (report.has_job() && report.has_cluster()) {
      const std::shared_ptr<const ProfileCatalog> catalog = options_.profiles->catalog();
      const absl::StatusOr<bool> own =
          IsOwnLayout(report, *catalog, *options_.engines, Current(*catalog));
      // Faults of the request are told with those of the report.
      if (own.ok() ? *own : ReasonOf(own.status()) != Reason::kLayoutInvalid) return report;
    }
    return Error(Reason::kPlanNotKnown, "Give its job, its cluster and the plan itself.",
                 {{"plan_id", report.plan_id().substr(0, 64)}});
  }
  const int32_t world_size = ran->has_plan() ? ran->plan().world_size() : ran->world_size();
  if (report.world_size() != 0 && report.world_size() != world_size) {
    return InvalidError(Reason::kRequestInvalid,
                        {{"world_size_of_plan", "report.world_size",
                          "Is not that of the plan that plan_id names; leave it out."}});
  }
  // What was measured of what ran.
  v1::IterationReport completed = report;
  if (!report.has_job()) *completed.mutable_job() = ran->job();
  if (!report.has_cluster()) *completed.mutable_cluster() = ran->cluster();
  completed.set_world_size(ran->world_size());
  if (ran->has_plan()) *completed.mutable_plan() = std::move(*ran->mutable_plan());
  return completed;
}

std::string FeedbackStore::NewName(absl::Time now) {
  last_name_ = std::max(last_name_ + 1, absl::ToUnixMicros(now));
  return NameOf(last_name_);
}

absl::StatusOr<FeedbackStore::Reported> FeedbackStore::Report(const v1::IterationReport& given) {
  HAPMOE_ASSIGN_OR_RETURN(v1::IterationReport report, Complete(given));
  const absl::Time now = options_.clock();
  const std::shared_ptr<const ProfileCatalog> catalog = options_.profiles->catalog();
  HAPMOE_ASSIGN_OR_RETURN(ReadReport read,
                          ReadIterationReport(report, *catalog, *options_.engines, now));
  report.mutable_measured_at()->set_seconds(absl::ToUnixSeconds(read.measured_at));
  report.mutable_measured_at()->set_nanos(0);
  Reported reported;
  reported.accelerators = read.accelerators;
  v1::ReportIterationResponse& response = reported.response;
  {  // What was predicted before, with the imbalance that is known now.
    const std::shared_ptr<const State> before = StateFor(*catalog);
    cost::Problem problem = *read.observation.problem;
    for (auto& profile : problem.profiles) {
      const auto type = before->corrected.types.find(profile);
      if (type != before->corrected.types.end()) profile = type->second.corrected;
    }
    const auto prediction = cost::Evaluate(problem, read.observation.plan);
    response.set_predicted_before_seconds(prediction.ok() &&
                                                  std::isfinite(prediction->iteration_seconds)
                                              ? prediction->iteration_seconds
                                              : read.predicted_seconds);
  }
  MutexLock lock(mutex_);
  if (options_.profiles->catalog()->version() != catalog->version()) {
    HAPMOE_ASSIGN_OR_RETURN(
        read, ReadIterationReport(report, *options_.profiles->catalog(), *options_.engines, now));
  }
  const std::string name = NewName(now);
  v1::StoredReport record;
  record.set_name(name);
  *record.mutable_report() = report;
  if (const absl::Status written = options_.storage->Write(record); !written.ok()) {
    return Error(Reason::kStorageFailed, absl::StatusCodeToString(written.code()));
  }
  // What is said of one that is older than all that are kept, and not kept.
  *response.mutable_stored() = record;
  response.mutable_stored()->set_predicted_seconds(read.predicted_seconds);
  response.mutable_stored()->set_corrected_seconds(response.predicted_before_seconds());
  const std::vector<std::string> types = read.accelerators;
  reports_[name] = {std::move(report), std::move(read), types};
  Publish(*options_.profiles->catalog(), now);
  const std::shared_ptr<const State> state = state_.Get();
  for (const v1::StoredReport& stored : state->reports) {
    if (stored.name() == name) *response.mutable_stored() = stored;
  }
  return reported;
}

absl::Status FeedbackStore::Delete(const std::string& name) {
  MutexLock lock(mutex_);
  if (reports_.find(name) == reports_.end()) {
    return Error(Reason::kReportNotFound, "", {{"report", name.substr(0, 64)}});
  }
  if (const absl::Status removed = options_.storage->Remove(name); !removed.ok()) {
    return Error(Reason::kStorageFailed, absl::StatusCodeToString(removed.code()));
  }
  reports_.erase(name);
  Publish(*options_.profiles->catalog(), options_.clock());
  return absl::OkStatus();
}

absl::StatusOr<v1::ListReportsResponse> FeedbackStore::List(const v1::ListReportsRequest& request) {
  if (request.page_size() < 0) {
    return InvalidError(
        Reason::kRequestInvalid,
        {{"page_size_not_negative", "page_size",
          absl::StrCat("Must not be negative, but is ", request.page_size(), ".")}});
  }
  if (!request.page_token().empty() && !NumberOf(request.page_token()).has_value()) {
    return Error(Reason::kPageTokenInvalid);
  }
  const int32_t size =
      request.page_size() == 0 ? kDefaultPageSize : std::min(request.page_size(), kMaxPageSize);
  const std::shared_ptr<const State> state = StateFor(*options_.profiles->catalog());
  v1::ListReportsResponse response;
  size_t bytes = 0;
  for (const v1::StoredReport& report : state->reports) {
    if (report.name() <= request.page_token()) continue;
    if (!request.accelerator().empty()) {
      const std::vector<std::string>& names = state->accelerators.at(report.name());
      const bool has = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return ProfileKey(name) == ProfileKey(request.accelerator());
      });
      if (!has) continue;
    }
    bytes += report.ByteSizeLong();
    if (response.reports_size() == size ||
        (bytes > kMostPageBytes && !response.reports().empty())) {
      response.set_next_page_token(response.reports().rbegin()->name());
      break;
    }
    *response.add_reports() = report;
  }
  return response;
}

v1::ListCorrectionsResponse FeedbackStore::Corrections() {
  const std::shared_ptr<const State> state = StateFor(*options_.profiles->catalog());
  v1::ListCorrectionsResponse response;
  for (const auto& [name, type] : state->types) {
    v1::AcceleratorCorrections* to = response.add_corrections();
    to->set_accelerator(name);
    to->set_reports(type.reports);
    to->set_spread(type.spread);
    for (size_t i = 0; i < profile::kTerms; ++i) {
      v1::CorrectionFactor* factor = to->add_factors();
      factor->set_term(profile::kTermNames[i]);
      factor->set_factor(type.corrections.of(static_cast<profile::Term>(i)));
      factor->set_prior_error(std::sqrt(type.prior.at(i, i)));
      factor->set_error(std::sqrt(type.posterior.at(i, i)));
    }
  }
  return response;
}

std::shared_ptr<const CorrectedProfiles> FeedbackStore::Current(const ProfileCatalog& catalog) {
  const std::shared_ptr<const State> state = StateFor(catalog);
  return {state, &state->corrected};
}

void FeedbackStore::Remember(const std::string& plan_id, v1::IterationReport ran) {
  known_.Remember(plan_id, std::move(ran));
}

double FeedbackStore::Factor(const std::string& accelerator, profile::Term term) const {
  const std::shared_ptr<const State> state = state_.Get();
  const auto type = state->types.find(accelerator);
  return type == state->types.end() ? 1 : type->second.corrections.of(term);
}

double FeedbackStore::Reports(const std::string& accelerator) const {
  const std::shared_ptr<const State> state = state_.Get();
  const auto type = state->types.find(accelerator);
  return type == state->types.end() ? 0 : static_cast<double>(type->second.reports);
}

std::shared_ptr<const FeedbackStore::State> FeedbackStore::StateFor(const ProfileCatalog& catalog) {
  const absl::Time now = options_.clock();
  // An older catalog than the state's is one that its caller took a moment ago: profiles that
  // changed since are found under other pointers, and hold as they are.
  const auto current = [&](const State& state) {
    return state.catalog_version >= catalog.version() &&
           (state.day >= DayOf(now) || state.reports.empty());
  };
  std::shared_ptr<const State> state = state_.Get();
  if (current(*state)) return state;
  MutexLock lock(mutex_);
  state = state_.Get();
  if (current(*state)) return state;
  Publish(catalog, now);
  return state_.Get();
}

void FeedbackStore::ReadAll(const ProfileCatalog& catalog, absl::Time now) {
  fits_.clear();
  for (auto& [name, kept] : reports_) {
    absl::StatusOr<ReadReport> read =
        ReadIterationReport(kept.report, catalog, *options_.engines, now);
    if (read.ok()) {
      kept.read = *std::move(read);
      kept.types = kept.read->accelerators;
    } else {
      kept.read.reset();
    }
  }
}

void FeedbackStore::Bound(absl::Time now) {
  std::set<std::string> dropped;
  std::map<std::string, size_t> of_type;
  std::map<std::string, size_t> of_plan;
  std::map<std::vector<std::string>, size_t> unread;  // By types.
  // The latest first.
  std::vector<std::pair<absl::Time, std::string>> order;
  for (const auto& [name, kept] : reports_) {
    order.emplace_back(absl::FromUnixSeconds(kept.report.measured_at().seconds()), name);
  }
  std::sort(order.rbegin(), order.rend());
  for (const auto& [time, name] : order) {
    const Kept& kept = reports_.at(name);
    bool drop = time < now - kMostReportAge;
    if (!kept.read.has_value()) {
      // As many as might be kept if they were read.
      const std::vector<std::string> types =
          kept.types.empty() ? WrittenTypes(kept.report) : kept.types;
      drop |= ++unread[types] > options_.most_reports_of_type * std::max<size_t>(types.size(), 1);
    } else if (!drop) {
      drop = of_plan[kept.read->observation.run] >= options_.most_reports_of_plan;
      for (const std::string& type : kept.read->accelerators) {
        drop |= of_type[type] >= options_.most_reports_of_type;
      }
      if (!drop) {
        ++of_plan[kept.read->observation.run];
        for (const std::string& type : kept.read->accelerators) ++of_type[type];
      }
    }
    if (drop) dropped.insert(name);
  }
  for (const std::string& name : dropped) {
    reports_.erase(name);
    (void)options_.storage->Remove(name);
  }
}

std::vector<std::vector<std::string>> FeedbackStore::Groups() const {
  struct Group {
    std::set<std::string> accelerators;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  for (const auto& [name, kept] : reports_) {
    if (!kept.read.has_value()) continue;
    Group joined;
    joined.accelerators.insert(kept.read->accelerators.begin(), kept.read->accelerators.end());
    for (size_t g = groups.size(); g-- > 0;) {
      const bool meet =
          std::any_of(groups[g].accelerators.begin(), groups[g].accelerators.end(),
                      [&](const std::string& type) { return joined.accelerators.count(type) > 0; });
      if (!meet) continue;
      joined.accelerators.merge(groups[g].accelerators);
      joined.names.insert(joined.names.end(), groups[g].names.begin(), groups[g].names.end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
    }
    joined.names.push_back(name);
    groups.push_back(std::move(joined));
  }
  std::vector<std::vector<std::string>> names;
  for (Group& group : groups) {
    std::sort(group.names.begin(), group.names.end());
    names.push_back(std::move(group.names));
  }
  return names;
}

std::shared_ptr<const feedback::Calibration> FeedbackStore::Fit(
    const std::vector<std::string>& group, absl::Time now) const {
  std::vector<feedback::Observation> observations;
  for (const std::string& name : group) {
    const ReadReport& read = *reports_.at(name).read;
    feedback::Observation observation = read.observation;
    observation.age_days = std::max(0.0, absl::ToDoubleHours(now - read.measured_at) / 24);
    observations.push_back(std::move(observation));
  }
  return std::make_shared<const feedback::Calibration>(feedback::Calibrate(observations));
}

void FeedbackStore::Publish(const ProfileCatalog& catalog, absl::Time now) {
  if (state_.Get()->catalog_version < catalog.version()) ReadAll(catalog, now);
  Bound(now);
  Show(catalog, now);
}

void FeedbackStore::Show(const ProfileCatalog& catalog, absl::Time now) {
  const std::shared_ptr<const State> before = state_.Get();
  if (before->day != DayOf(now)) fits_.clear();
  std::map<std::vector<std::string>, std::shared_ptr<const feedback::Calibration>> fits;
  for (const std::vector<std::string>& group : Groups()) {
    const auto known = fits_.find(group);
    fits[group] = known == fits_.end() ? Fit(group, now) : known->second;
  }
  fits_ = std::move(fits);
  auto state = std::make_shared<State>();
  state->catalog_version = std::max(catalog.version(), before->catalog_version);
  state->day = DayOf(now);
  std::map<std::string, feedback::Calibration::Verdict> verdicts;
  for (const auto& [group, fitted] : fits_) {
    for (size_t i = 0; i < group.size(); ++i) {
      verdicts[group[i]] = fitted->verdicts[i];
    }
    for (const auto& [type, calibration] : fitted->types) {
      auto corrected = std::make_shared<profile::AcceleratorProfile>(*type);
      corrected->corrections = calibration.corrections;
      state->corrected.types[type] = {std::move(corrected), calibration};
      state->types[type->name] = calibration;
    }
  }
  for (const auto& [name, kept] : reports_) {
    v1::StoredReport stored;
    stored.set_name(name);
    *stored.mutable_report() = kept.report;
    if (const auto verdict = verdicts.find(name); verdict != verdicts.end()) {
      stored.set_predicted_seconds(verdict->second.predicted_seconds);
      stored.set_corrected_seconds(verdict->second.corrected_seconds);
      stored.set_weight(verdict->second.weight);
    }
    state->reports.push_back(std::move(stored));
    state->accelerators[name] =
        kept.read.has_value() ? kept.read->accelerators : std::vector<std::string>();
  }
  state_.Set(std::move(state));
}

}  // namespace hapmoe::server
