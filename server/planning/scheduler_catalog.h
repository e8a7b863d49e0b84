// What schedulers are told unless somebody says otherwise, read from data.
#ifndef HAPMOE_SERVER_PLANNING_SCHEDULER_CATALOG_H_
#define HAPMOE_SERVER_PLANNING_SCHEDULER_CATALOG_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "hapmoe/v1/launch.pb.h"

namespace hapmoe::server {

// Immutable: thread safe.
class SchedulerCatalog {
 public:
  // Each text is the JSON form of SchedulerDefaults. InvalidArgument: a text is none, or two are
  // for the same scheduler.
  static absl::StatusOr<SchedulerCatalog> Parse(absl::Span<const absl::string_view> texts);

  // Null if there are none for this scheduler.
  const v1::SchedulerDefaults* Find(absl::string_view scheduler) const;

 private:
  std::map<std::string, std::shared_ptr<const v1::SchedulerDefaults>, std::less<>> defaults_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_SCHEDULER_CATALOG_H_
