#include "server/feedback/feedback_store.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "google/protobuf/message.h"
#include "server/errors/errors.h"
#include "server/feedback/report_reader.h"
#include "server/storage/back_off.h"

namespace hapmoe::server {
namespace {

constexpr size_t kMostKnownPlans = 512;
constexpr size_t kMostKnownBytes = size_t{16} << 20;

constexpr int32_t kDefaultPageSize = 50;
constexpr int32_t kMaxPageSize = 1000;
constexpr size_t kMostPageBytes = size_t{2} << 20;  // Reports hold plans of large clusters.

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

void AddVerdict(const FeedbackState& state, v1::StoredReport& stored) {
  const auto verdict = state.verdicts.find(stored.name());
  if (verdict == state.verdicts.end()) return;
  stored.set_predicted_seconds(verdict->second.predicted_seconds);
  stored.set_corrected_seconds(verdict->second.corrected_seconds);
  stored.set_weight(verdict->second.weight);
}

}  // namespace

FeedbackStore::FeedbackStore(Options options)
    : options_(std::move(options)),
      known_(kMostKnownPlans, kMostKnownBytes),
      state_(std::make_shared<const FeedbackState>()) {}

absl::StatusOr<std::unique_ptr<FeedbackStore>> FeedbackStore::Open(Options options) {
  std::unique_ptr<FeedbackStore> store(new FeedbackStore(std::move(options)));
  HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents,
                          store->options_.storage->Load(RecordKind::kReport, 0));
  {
    MutexLock lock(store->mutex_);
    store->TakeStored(contents, store->faults_);
  }
  // Removes nothing: profiles that are missing now may be back at the next start.
  store->Refit(/*bound=*/false);
  store->thread_ = std::thread([raw = store.get()] { raw->RunRounds(); });
  return store;
}

FeedbackStore::~FeedbackStore() {
  stop_.Trip(Interrupter::Cause::kCancelled);
  {
    MutexLock lock(rounds_mutex_);
    stopping_ = true;
  }
  asked_for_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool FeedbackStore::TakeStored(const RecordContents& contents, std::vector<LoadFault>& faults) {
  faults.insert(faults.end(), contents.faults.begin(), contents.faults.end());
  stored_version_ = contents.version;
  const absl::Time now = options_.clock();
  bool changed = false;
  std::set<std::string> there;
  for (const StoredRecord& record : contents.records) {
    if (!record.content.has_value()) {
      changed |= reports_.erase(record.key) > 0;
      continue;
    }
    there.insert(record.key);
    if (reports_.count(record.key) > 0) continue;  // A report never changes.
    const std::optional<int64_t> number = NumberOf(record.key);
    v1::IterationReport report;
    if (!number.has_value()) {
      faults.push_back({record.key, "not a name of a report"});
      continue;
    }
    last_name_ = std::max(last_name_, *number);
    if (!report.ParseFromString(*record.content)) {
      faults.push_back({record.key, "not a report"});
      continue;
    }
    Violations violations;
    CheckFigures(report, now, violations);
    if (!violations.empty()) {
      faults.push_back(
          {record.key, absl::StrCat(violations[0].field, ": ", violations[0].message)});
      continue;
    }
    reports_[record.key].report = std::make_shared<const v1::IterationReport>(std::move(report));
    changed = true;
  }
  if (contents.complete) {
    for (auto report = reports_.begin(); report != reports_.end();) {
      const bool gone = there.count(report->first) == 0;
      changed |= gone;
      report = gone ? reports_.erase(report) : std::next(report);
    }
  }
  return changed;
}

absl::StatusOr<std::vector<LoadFault>> FeedbackStore::Refresh() {
  std::vector<LoadFault> faults;
  bool changed = false;
  {
    MutexLock lock(mutex_);
    HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents,
                            options_.storage->Load(RecordKind::kReport, stored_version_));
    changed = TakeStored(contents, faults);
  }
  if (changed) AskForFit();
  return faults;
}

absl::Status FeedbackStore::Store(v1::StoredReport& stored, absl::Time now) {
  for (int attempt = 1;; ++attempt) {
    stored.set_name(NewName(now));
    RecordBatch batch;
    batch.kind = RecordKind::kReport;
    batch.changes.push_back({stored.name(), stored.report().SerializeAsString()});
    batch.expected_version = stored_version_;  // Another server may have given the same name.
    const absl::StatusOr<int64_t> version = options_.storage->Apply(batch);
    if (version.ok()) {
      stored_version_ = *version;
      return absl::OkStatus();
    }
    if (!absl::IsAborted(version.status()) || attempt == kMostAttempts) return version.status();
    BackOff(attempt);
    HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents,
                            options_.storage->Load(RecordKind::kReport, stored_version_));
    std::vector<LoadFault> faults;  // Told when they were written.
    TakeStored(contents, faults);
  }
}

absl::Status FeedbackStore::Remove(const std::set<std::string>& names) {
  if (names.empty()) return absl::OkStatus();
  RecordBatch batch;
  batch.kind = RecordKind::kReport;
  for (const std::string& name : names) batch.changes.push_back({name, std::nullopt});
  return options_.storage->Apply(batch).status();  // What others changed, Refresh takes in.
}

absl::StatusOr<v1::IterationReport> FeedbackStore::Complete(const v1::IterationReport& report) {
  if (report.plan_id().empty() || report.has_plan()) return report;
  std::optional<v1::IterationReport> ran = known_.Find(report.plan_id());
  if (!ran.has_value() && more_plans_ != nullptr) ran = more_plans_(report.plan_id());
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

absl::StatusOr<FeedbackStore::Reported> FeedbackStore::Report(const v1::IterationReport& given,
                                                              TimePoint until) {
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
    const std::shared_ptr<const CorrectedProfiles> before = Current(*catalog);
    cost::Problem problem = *read.observation.problem;
    for (auto& profile : problem.profiles) {
      const auto type = before->types.find(profile);
      if (type != before->types.end()) profile = type->second.corrected;
    }
    const auto prediction = cost::Evaluate(problem, read.observation.plan);
    response.set_predicted_before_seconds(prediction.ok() &&
                                                  std::isfinite(prediction->iteration_seconds)
                                              ? prediction->iteration_seconds
                                              : read.predicted_seconds);
  }
  v1::StoredReport& stored = *response.mutable_stored();
  *stored.mutable_report() = report;
  // What is said of one that is not fitted yet, or older than all that are kept, and not kept.
  stored.set_predicted_seconds(read.predicted_seconds);
  stored.set_corrected_seconds(response.predicted_before_seconds());
  {
    KeptReport kept;
    kept.report = std::make_shared<const v1::IterationReport>(std::move(report));
    kept.types = read.accelerators;
    kept.read = std::make_shared<const ReadReport>(std::move(read));
    kept.catalog_version = catalog->version();
    MutexLock lock(mutex_);
    if (const absl::Status written = Store(stored, now); !written.ok()) {
      return StorageError(written);
    }
    reports_[stored.name()] = std::move(kept);
    Bound(now);
  }
  if (!AwaitFit(AskForFit(), until)) {
    response.set_fit_pending(true);
    return reported;
  }
  AddVerdict(*state_.Get(), stored);
  return reported;
}

absl::Status FeedbackStore::Delete(const std::string& name, TimePoint until) {
  {
    MutexLock lock(mutex_);
    if (reports_.find(name) == reports_.end()) {
      return Error(Reason::kReportNotFound, "", {{"report", name.substr(0, 64)}});
    }
    if (const absl::Status removed = Remove({name}); !removed.ok()) return StorageError(removed);
    reports_.erase(name);
  }
  AwaitFit(AskForFit(), until);
  return absl::OkStatus();
}

absl::StatusOr<v1::ListReportsResponse> FeedbackStore::List(const v1::ListReportsRequest& request,
                                                            TimePoint until) {
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
  const std::shared_ptr<const FeedbackState> state = Fresh(until);
  KeptReports reports;
  {
    MutexLock lock(mutex_);
    reports = reports_;
  }
  v1::ListReportsResponse response;
  size_t bytes = 0;
  for (const auto& [name, kept] : reports) {
    if (name <= request.page_token()) continue;
    if (!request.accelerator().empty()) {
      const bool has =
          kept.read != nullptr &&
          std::any_of(kept.types.begin(), kept.types.end(), [&](const std::string& type) {
            return ProfileKey(type) == ProfileKey(request.accelerator());
          });
      if (!has) continue;
    }
    v1::StoredReport report;
    report.set_name(name);
    *report.mutable_report() = *kept.report;
    AddVerdict(*state, report);
    bytes += report.ByteSizeLong();
    if (response.reports_size() == size ||
        (bytes > kMostPageBytes && !response.reports().empty())) {
      response.set_next_page_token(response.reports().rbegin()->name());
      break;
    }
    *response.add_reports() = std::move(report);
  }
  return response;
}

v1::ListCorrectionsResponse FeedbackStore::Corrections(TimePoint until) {
  const std::shared_ptr<const FeedbackState> state = Fresh(until);
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
  // Profiles that changed since are found under other pointers, and hold as they are.
  const std::shared_ptr<const FeedbackState> state = state_.Get();
  if (IsStale(*state, catalog)) {
    MutexLock lock(rounds_mutex_);
    if (asked_ == done_) {  // Otherwise one is coming, after which the next who asks looks again.
      asked_ = begun_ + 1;
      asked_for_.NotifyOne();
    }
  }
  return {state, &state->corrected};
}

void FeedbackStore::Remember(const std::string& plan_id, v1::IterationReport ran) {
  known_.Remember(plan_id, std::move(ran));
}

double FeedbackStore::Factor(const std::string& accelerator, profile::Term term) const {
  const std::shared_ptr<const FeedbackState> state = state_.Get();
  const auto type = state->types.find(accelerator);
  return type == state->types.end() ? 1 : type->second.corrections.of(term);
}

double FeedbackStore::Reports(const std::string& accelerator) const {
  const std::shared_ptr<const FeedbackState> state = state_.Get();
  const auto type = state->types.find(accelerator);
  return type == state->types.end() ? 0 : static_cast<double>(type->second.reports);
}

bool FeedbackStore::IsStale(const FeedbackState& state, const ProfileCatalog& catalog) const {
  // An older catalog than the state's is one that its caller took a moment ago.
  return state.catalog_version < catalog.version() ||
         (state.reports > 0 && state.day < DayOf(options_.clock()));
}

int64_t FeedbackStore::AskForFit() {
  MutexLock lock(rounds_mutex_);
  asked_ = begun_ + 1;
  asked_for_.NotifyOne();
  return asked_;
}

bool FeedbackStore::AwaitFit(int64_t round, TimePoint until) {
  MutexLock lock(rounds_mutex_);
  while (done_ < round) {
    if (waits_ended_ || std::chrono::steady_clock::now() >= until) return false;
    ended_.WaitUntil(rounds_mutex_, until);
  }
  return true;
}

void FeedbackStore::EndWaits() {
  MutexLock lock(rounds_mutex_);
  waits_ended_ = true;
  ended_.NotifyAll();
}

std::shared_ptr<const FeedbackState> FeedbackStore::Fresh(TimePoint until) {
  int64_t round = 0;
  if (IsStale(*state_.Get(), *options_.profiles->catalog())) {
    round = AskForFit();
  } else {
    MutexLock lock(rounds_mutex_);
    round = asked_;
  }
  AwaitFit(round, until);
  return state_.Get();
}

void FeedbackStore::RunRounds() {
  MutexLock lock(rounds_mutex_);
  while (!stopping_) {
    if (asked_ == done_) {
      asked_for_.Wait(rounds_mutex_);
      continue;
    }
    begun_ = asked_;
    rounds_mutex_.Unlock();
    Refit(/*bound=*/true);
    rounds_mutex_.Lock();
    done_ = begun_;
    ended_.NotifyAll();
  }
}

void FeedbackStore::Refit(bool bound) {
  KeptReports reports;
  {
    MutexLock lock(mutex_);
    reports = reports_;
  }
  const absl::Time now = options_.clock();
  // Later than the reports: none of them was read with profiles that are newer.
  const std::shared_ptr<const ProfileCatalog> catalog = options_.profiles->catalog();
  ReadAgain(*catalog, *options_.engines, now, stop_, reports);
  if (stop_.tripped()) return;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, kept] : reports) {
      if (const auto found = reports_.find(name); found != reports_.end()) found->second = kept;
    }
    if (bound) Bound(now);
    for (auto report = reports.begin(); report != reports.end();) {
      report = reports_.count(report->first) > 0 ? std::next(report) : reports.erase(report);
    }
  }
  std::shared_ptr<const FeedbackState> state = fitter_.Fit(reports, catalog->version(), now, stop_);
  if (state != nullptr) state_.Set(std::move(state));
}

void FeedbackStore::Bound(absl::Time now) {
  std::set<std::string> dropped;
  std::map<std::string, size_t> of_type;
  std::map<std::string, size_t> of_plan;
  std::map<std::vector<std::string>, size_t> unread;  // By types.
  // The latest first.
  std::vector<std::pair<absl::Time, std::string>> order;
  for (const auto& [name, kept] : reports_) {
    order.emplace_back(absl::FromUnixSeconds(kept.report->measured_at().seconds()), name);
  }
  std::sort(order.rbegin(), order.rend());
  for (const auto& [time, name] : order) {
    const KeptReport& kept = reports_.at(name);
    bool drop = time < now - kMostReportAge;
    if (kept.read == nullptr) {
      // As many as might be kept if they were read.
      const std::vector<std::string> types =
          kept.types.empty() ? WrittenTypes(*kept.report) : kept.types;
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
  for (const std::string& name : dropped) reports_.erase(name);
  (void)Remove(dropped);
}

}  // namespace hapmoe::server
