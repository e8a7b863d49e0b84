#include "server/feedback/known_plans.h"

#include <iterator>
#include <utility>

namespace hapmoe::server {

void KnownPlans::Remember(const std::string& plan_id, v1::IterationReport ran) {
  const size_t bytes = ran.ByteSizeLong() + plan_id.size();
  MutexLock lock(mutex_);
  if (const auto known = by_id_.find(plan_id); known != by_id_.end()) Forget(known->second);
  if (bytes > most_bytes_) return;
  entries_.push_front({plan_id, std::move(ran), bytes});
  by_id_[plan_id] = entries_.begin();
  bytes_ += bytes;
  while (entries_.size() > most_plans_ || bytes_ > most_bytes_) Forget(std::prev(entries_.end()));
}

std::optional<v1::IterationReport> KnownPlans::Find(const std::string& plan_id) {
  MutexLock lock(mutex_);
  const auto known = by_id_.find(plan_id);
  if (known == by_id_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->ran;
}

void KnownPlans::Forget(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->plan_id);
  entries_.erase(entry);
}

}  // namespace hapmoe::server
