#include "server/planning/scheduler_catalog.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/profile_store/json_files.h"

namespace hapmoe::server {

absl::StatusOr<SchedulerCatalog> SchedulerCatalog::Parse(
    absl::Span<const absl::string_view> texts) {
  SchedulerCatalog catalog;
  for (const absl::string_view text : texts) {
    const auto defaults = std::make_shared<v1::SchedulerDefaults>();
    HAPMOE_RETURN_IF_ERROR(ParseJson(text, *defaults));
    for (const std::string& scheduler : defaults->schedulers()) {
      if (!catalog.defaults_.emplace(scheduler, defaults).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("scheduler \"", scheduler, "\" has defaults twice"));
      }
    }
  }
  return catalog;
}

const v1::SchedulerDefaults* SchedulerCatalog::Find(absl::string_view scheduler) const {
  const auto found = defaults_.find(std::string(scheduler));
  return found == defaults_.end() ? nullptr : found->second.get();
}

}  // namespace hapmoe::server
