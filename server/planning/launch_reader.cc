#include "server/planning/launch_reader.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using Entries = google::protobuf::RepeatedPtrField<v1::AcceleratorPlacement>;

// The entry of each accelerator type that the request lists, by the key of its profile's name.
std::map<std::string, const v1::AcceleratorPlacement*> EntriesByType(const Entries& entries,
                                                                     const ProfileCatalog& catalog,
                                                                     Violations& violations) {
  std::map<std::string, const v1::AcceleratorPlacement*> by_type;
  for (int i = 0; i < entries.size(); ++i) {
    const std::string field = absl::StrCat("launch.accelerators[", i, "].accelerator");
    const std::string& name = entries[i].accelerator();
    const ProfileEntryPtr profile = catalog.Find(name);
    if (profile == nullptr) {
      const std::vector<std::string> near = catalog.Nearest(name);
      violations.push_back(
          {"launch_accelerator_known", field,
           absl::StrCat("No accelerator type has this name", near.empty() ? "" : "; did you mean ",
                        absl::StrJoin(near, ", "), near.empty() ? "." : "?")});
    } else if (!by_type.emplace(ProfileKey(profile->core->name), &entries[i]).second) {
      violations.push_back({"launch_accelerator_unique", field,
                            absl::StrCat("The type ", profile->core->name, " is listed twice.")});
    }
  }
  return by_type;
}

// The vendor's defaults, then the type's, then what the request says, each over those before.
engine::Placement PlacementOf(const profile::AcceleratorProfile& profile,
                              const v1::SchedulerDefaults& defaults,
                              const v1::AcceleratorPlacement* own) {
  v1::AcceleratorPlacement merged;
  for (const bool of_type : {false, true}) {
    for (const v1::PlacementDefault& one : defaults.placements()) {
      const bool matches =
          of_type ? ProfileKey(one.placement().accelerator()) == ProfileKey(profile.name)
                  : one.placement().accelerator().empty() && one.vendor() == profile.vendor;
      if (matches) MergePlacement(one.placement(), merged);
    }
  }
  if (own != nullptr) MergePlacement(*own, merged);
  return PlacementFromWire(merged);
}

// Pools are told apart by their types, whatever the names that a caller uses for one.
cluster::Cluster WithTypeNames(const cluster::Cluster& cluster, const Profiles& profiles) {
  cluster::Cluster named = cluster;
  for (size_t i = 0; i < profiles.size(); ++i) named.pools[i].accelerator = profiles[i]->name;
  return named;
}

}  // namespace

std::optional<engine::SchedulerOptions> ReadLaunch(const LaunchRequest& request,
                                                   const cluster::Cluster& cluster,
                                                   const Profiles& profiles,
                                                   const ProfileCatalog& catalog,
                                                   Violations& violations) {
  if (!request.names_scheduler()) return std::nullopt;
  const v1::LaunchOptions& wire = *request.options;
  const v1::SchedulerDefaults* defaults =
      request.schedulers == nullptr ? nullptr : request.schedulers->Find(wire.scheduler());
  const std::optional<engine::Scheduler> scheduler = engine::ParseScheduler(wire.scheduler());
  if (!scheduler.has_value() || defaults == nullptr) {
    violations.push_back(
        {"launch_scheduler_known", "launch.scheduler",
         absl::StrCat("Must be \"", absl::StrJoin(engine::SchedulerNames(), "\" or \""),
                      "\", not \"", wire.scheduler(), "\".")});
    return std::nullopt;
  }
  const size_t faults = violations.size();
  std::optional<engine::SchedulerOptions> options =
      LaunchFromWire(wire, *scheduler, *defaults, violations);
  if (violations.size() > faults) return std::nullopt;  // Too much of something to look at.
  const auto entries = EntriesByType(wire.accelerators(), catalog, violations);
  for (int i = 0; i < wire.accelerators_size(); ++i) {
    engine::CheckPlacement(PlacementFromWire(wire.accelerators(i)),
                           absl::StrCat("launch.accelerators[", i, "]"), violations);
  }
  const bool pools_known = cluster::Validate(cluster).empty() &&
                           std::none_of(profiles.begin(), profiles.end(),
                                        [](const auto& profile) { return profile == nullptr; });
  if (!pools_known) {
    engine::CheckSchedulerOptions(*options, {}, violations);
    return options;
  }
  for (const auto& profile : profiles) {
    const auto own = entries.find(ProfileKey(profile->name));
    options->pools.push_back(
        PlacementOf(*profile, *defaults, own == entries.end() ? nullptr : own->second));
  }
  engine::CheckSchedulerOptions(*options, WithTypeNames(cluster, profiles), violations);
  return options;
}

}  // namespace hapmoe::server
