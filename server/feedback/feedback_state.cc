#include "server/feedback/feedback_state.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

namespace hapmoe::server {
namespace {

// Names of reports that share accelerator types, directly or by way of others.
std::vector<std::vector<std::string>> GroupsOf(const KeptReports& reports) {
  struct Group {
    std::set<std::string> accelerators;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  for (const auto& [name, kept] : reports) {
    if (kept.read == nullptr) continue;
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

std::optional<feedback::Calibration> FitGroup(
    const std::vector<std::shared_ptr<const ReadReport>>& group, absl::Time now,
    const Interrupter& interrupter) {
  std::vector<feedback::Observation> observations;
  for (const std::shared_ptr<const ReadReport>& read : group) {
    observations.push_back(read->observation);
    observations.back().age_days = std::max(0.0, absl::ToDoubleHours(now - read->measured_at) / 24);
  }
  return feedback::Calibrate(observations, interrupter);
}

// Whether the profiles that a report was read with are in force.
bool HoldsFor(const ReadReport& read, const ProfileCatalog& catalog) {
  const auto& profiles = read.observation.problem->profiles;
  return std::all_of(profiles.begin(), profiles.end(), [&](const auto& profile) {
    const ProfileEntryPtr entry = catalog.Find(profile->name);
    return entry != nullptr && entry->core == profile;
  });
}

}  // namespace

int64_t DayOf(absl::Time time) { return absl::ToUnixSeconds(time) / int64_t{86400}; }

void ReadAgain(const ProfileCatalog& catalog, const EngineCatalog& engines, absl::Time now,
               const Interrupter& interrupter, KeptReports& reports) {
  for (auto& [name, kept] : reports) {
    if (interrupter.tripped()) return;
    if (kept.catalog_version == catalog.version()) continue;
    kept.catalog_version = catalog.version();
    if (kept.read != nullptr && HoldsFor(*kept.read, catalog)) continue;
    absl::StatusOr<ReadReport> read = ReadIterationReport(*kept.report, catalog, engines, now);
    if (read.ok()) {
      kept.types = read->accelerators;
      kept.read = std::make_shared<const ReadReport>(*std::move(read));
    } else {
      kept.read = nullptr;
    }
  }
}

std::shared_ptr<const FeedbackState> FeedbackFitter::Fit(const KeptReports& reports,
                                                         int64_t catalog_version, absl::Time now,
                                                         const Interrupter& interrupter) {
  if (day_ != DayOf(now)) fits_.clear();
  day_ = DayOf(now);
  auto state = std::make_shared<FeedbackState>();
  state->catalog_version = catalog_version;
  state->day = day_;
  state->reports = reports.size();
  std::map<Group, std::shared_ptr<const Fitted>> fits;
  for (const std::vector<std::string>& names : GroupsOf(reports)) {
    Group group;
    for (const std::string& name : names) group.push_back(reports.at(name).read);
    std::shared_ptr<const Fitted>& fit = fits[group];
    if (const auto known = fits_.find(group); known != fits_.end()) {
      fit = known->second;
    } else {
      std::optional<feedback::Calibration> fitted = FitGroup(group, now, interrupter);
      if (!fitted.has_value()) return nullptr;
      auto made = std::make_shared<Fitted>();
      made->calibration = *std::move(fitted);
      for (const auto& [type, calibration] : made->calibration.types) {
        auto corrected = std::make_shared<profile::AcceleratorProfile>(*type);
        corrected->corrections = calibration.corrections;
        made->corrected.types[type] = {std::move(corrected), calibration};
      }
      fit = std::move(made);
    }
    const feedback::Calibration& calibration = fit->calibration;
    for (size_t i = 0; i < names.size(); ++i) state->verdicts[names[i]] = calibration.verdicts[i];
    for (const auto& [type, says] : calibration.types) state->types[type->name] = says;
    state->corrected.types.insert(fit->corrected.types.begin(), fit->corrected.types.end());
  }
  fits_ = std::move(fits);
  return state;
}

}  // namespace hapmoe::server
