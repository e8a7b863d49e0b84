// Plans that were answered not long ago, by their ids.
#ifndef HAPMOE_SERVER_FEEDBACK_KNOWN_PLANS_H_
#define HAPMOE_SERVER_FEEDBACK_KNOWN_PLANS_H_

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "core/base/mutex.h"
#include "hapmoe/v1/feedback.pb.h"

namespace hapmoe::server {

// Forgets what was asked for longest ago when there is too much. Thread safe.
class KnownPlans {
 public:
  KnownPlans(size_t most_plans, size_t most_bytes)
      : most_plans_(most_plans), most_bytes_(most_bytes) {}

  void Remember(const std::string& plan_id, v1::IterationReport ran);
  std::optional<v1::IterationReport> Find(const std::string& plan_id);

 private:
  struct Entry {
    std::string plan_id;
    v1::IterationReport ran;
    size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  void Forget(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_plans_;
  const size_t most_bytes_;
  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // The last one used first.
  std::map<std::string, Entries::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_KNOWN_PLANS_H_
