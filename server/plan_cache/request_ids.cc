#include "server/plan_cache/request_ids.h"

#include <iterator>
#include <utility>

namespace hapmoe::server {
namespace {

// Of containers beside what they hold, about.
constexpr size_t kTableBytes = 12 * sizeof(void*);

}  // namespace

RequestIds::Claim RequestIds::Answer(absl::string_view id, const RequestIdentity& identity,
                                     const KeptAnswerPtr& answer, const NumberedView& now,
                                     TimePoint time) {
  if (id.empty() || options_.most_bytes == 0) return {};
  MutexLock lock(mutex_);
  auto record = Find(id, time);
  if (record == records_.end()) record = Add(id, identity);
  if (!(record->identity == identity)) return {Verdict::kOther, nullptr};
  if (record->answer != nullptr &&
      (record->answer == answer || record->answer->basis.HoldsIn(now.view))) {
    return {Verdict::kAnswered, record->answer};
  }
  SetAnswer(record, answer, time);
  return {};
}

RequestIds::Claim RequestIds::Begin(absl::string_view id, const RequestIdentity& identity,
                                    bool anew, const NumberedView& now, TimePoint time) {
  if (id.empty() || options_.most_bytes == 0) return {};
  MutexLock lock(mutex_);
  auto record = Find(id, time);
  if (record == records_.end()) record = Add(id, identity);
  if (!(record->identity == identity)) return {Verdict::kOther, nullptr};
  if (!anew && record->answer != nullptr && record->answer->basis.HoldsIn(now.view)) {
    return {Verdict::kAnswered, record->answer};
  }
  ++record->under_way;
  return {};
}

void RequestIds::Settle(absl::string_view id, const RequestIdentity& identity,
                        const KeptAnswerPtr& answer, TimePoint time) {
  if (id.empty() || options_.most_bytes == 0) return;
  MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  // It was forgotten meanwhile, and may belong to another request now.
  if (found == by_id_.end() || !(found->second->identity == identity)) return;
  const Records::iterator record = found->second;
  if (record->under_way > 0) --record->under_way;
  if (answer != nullptr) {
    SetAnswer(record, answer, time);
  } else if (record->under_way == 0 && record->answer == nullptr) {
    Drop(record);
  }
}

size_t RequestIds::size() const {
  MutexLock lock(mutex_);
  return records_.size();
}

size_t RequestIds::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

RequestIds::Records::iterator RequestIds::Find(absl::string_view id, TimePoint time) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return records_.end();
  const Records::iterator record = found->second;
  const bool over = record->answer != nullptr && record->until <= time;
  if (over && record->under_way == 0) {
    Drop(record);
    return records_.end();
  }
  return record;
}

RequestIds::Records::iterator RequestIds::Add(absl::string_view id,
                                              const RequestIdentity& identity) {
  const Records::iterator record = records_.emplace(records_.begin());
  record->id = std::string(id);
  record->identity = identity;
  by_id_.emplace(record->id, record);
  record->bytes =
      sizeof(Record) + kTableBytes + record->id.capacity() + record->identity.form->capacity();
  bytes_ += record->bytes;
  // Not the one that is new, even where it alone is too much.
  while (bytes_ > options_.most_bytes && records_.size() > 1) Drop(std::prev(records_.end()));
  return record;
}

void RequestIds::SetAnswer(Records::iterator record, const KeptAnswerPtr& answer, TimePoint time) {
  const size_t before = record->answer == nullptr ? 0 : record->answer->bytes();
  record->answer = answer;
  record->until = time + std::chrono::duration_cast<TimePoint::duration>(options_.window);
  const size_t bytes = answer->bytes();
  record->bytes += bytes - before;
  bytes_ += bytes - before;
  records_.splice(records_.begin(), records_, record);
  while (bytes_ > options_.most_bytes && records_.size() > 1) Drop(std::prev(records_.end()));
}

void RequestIds::Drop(Records::iterator record) {
  bytes_ -= record->bytes;
  by_id_.erase(record->id);
  records_.erase(record);
}

}  // namespace hapmoe::server
