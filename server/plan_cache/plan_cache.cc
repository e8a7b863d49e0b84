#include "server/plan_cache/plan_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace hapmoe::server {
namespace {

constexpr size_t kMostSpellings = 4;
// Of a list's node and of a map's slot beside what they hold, about.
constexpr size_t kNodeBytes = 4 * sizeof(void*);
constexpr size_t kSlotBytes = 2 * (sizeof(absl::string_view) + 3 * sizeof(void*));
// Entries that are looked at while the lock is held, where all are.
constexpr size_t kBatch = 64;

}  // namespace

std::optional<PlanCache::Found> PlanCache::FindSpelling(AnswerKind kind, absl::string_view asked,
                                                        const NumberedView& now) {
  if (most_bytes_ == 0 || asked.empty()) return std::nullopt;
  MutexLock lock(mutex_);
  const Spellings& spellings = SpellingsOf(kind);
  const auto found = spellings.find(asked);
  if (found == spellings.end()) return std::nullopt;
  const auto [entry, spelling] = found->second;
  if (!Holds(entry, now)) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, entry);
  entry->spellings.splice(entry->spellings.begin(), entry->spellings, spelling);
  return Found{entry->answer, {entry->form, spelling->budget_nanoseconds, kind}};
}

std::optional<PlanCache::Found> PlanCache::FindForm(const RequestIdentity& identity,
                                                    absl::string_view asked,
                                                    const NumberedView& now) {
  if (most_bytes_ == 0) return std::nullopt;
  MutexLock lock(mutex_);
  const auto found = by_form_.find(*identity.form);
  if (found == by_form_.end()) return std::nullopt;
  const Entries::iterator entry = found->second;
  if (!Holds(entry, now)) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, entry);
  Found given{entry->answer, {entry->form, identity.budget_nanoseconds, identity.kind}};
  AddSpelling(entry, asked, identity.budget_nanoseconds);
  Bound();
  return given;
}

void PlanCache::Store(const RequestIdentity& identity, absl::string_view asked,
                      KeptAnswerPtr answer) {
  if (most_bytes_ == 0) return;
  const size_t bytes = sizeof(Entry) + kNodeBytes + kSlotBytes + sizeof(std::string) +
                       identity.form->capacity() + answer->bytes();
  MutexLock lock(mutex_);
  if (const auto known = by_form_.find(*identity.form); known != by_form_.end()) {
    Drop(known->second);
  }
  if (bytes > most_bytes_) return;
  const Entries::iterator entry = entries_.emplace(entries_.begin());
  entry->kind = identity.kind;
  entry->form = identity.form;
  entry->answer = std::move(answer);
  by_form_.emplace(*entry->form, entry);
  Charge(*entry, bytes);
  entries_count_.store(entries_.size(), std::memory_order_relaxed);
  AddSpelling(entry, asked, identity.budget_nanoseconds);
  Bound();
}

void PlanCache::DropStale(const NumberedView& now) {
  if (most_bytes_ == 0) return;
  std::shared_ptr<const std::string> at;  // The last one that was looked at.
  for (;;) {
    MutexLock lock(mutex_);
    auto entry = entries_.begin();
    if (at != nullptr) {
      const auto before = by_form_.find(*at);
      // Where it is gone the rest is found stale when it is asked for, or goes unused.
      if (before == by_form_.end()) return;
      entry = std::next(before->second);
    }
    for (size_t i = 0; i < kBatch; ++i) {
      if (entry == entries_.end()) return;
      const auto next = std::next(entry);
      const std::shared_ptr<const std::string> form = entry->form;
      if (Holds(entry, now)) at = form;
      entry = next;
    }
  }
}

std::optional<PlanCache::Found> PlanCache::FindPlan(absl::string_view plan_id) const {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    const std::vector<std::string>& ids = entry.answer->plan_ids;
    if (std::find(ids.begin(), ids.end(), plan_id) == ids.end()) continue;
    return Found{entry.answer, {entry.form, 0, entry.kind}};
  }
  return std::nullopt;
}

bool PlanCache::Holds(Entries::iterator entry, const NumberedView& now) {
  if (entry->view_number == now.number) return true;
  if (entry->answer->basis.HoldsIn(now.view)) {
    entry->view_number = std::max(entry->view_number, now.number);
    return true;
  }
  // Not for the sake of a caller who looked at the profiles before others did.
  if (entry->view_number < now.number) Drop(entry);
  return false;
}

void PlanCache::AddSpelling(Entries::iterator entry, absl::string_view asked,
                            int64_t budget_nanoseconds) {
  Spellings& spellings = SpellingsOf(entry->kind);
  if (asked.empty() || spellings.contains(asked)) return;
  entry->spellings.push_front({std::string(asked), budget_nanoseconds});
  const auto spelling = entry->spellings.begin();
  spellings.emplace(spelling->asked, Place{entry, spelling});
  Charge(*entry, sizeof(Spelling) + spelling->asked.capacity() + kNodeBytes + kSlotBytes);
  if (entry->spellings.size() > kMostSpellings) {
    DropSpelling(entry, std::prev(entry->spellings.end()));
  }
}

void PlanCache::DropSpelling(Entries::iterator entry, std::list<Spelling>::iterator spelling) {
  const size_t bytes = sizeof(Spelling) + spelling->asked.capacity() + kNodeBytes + kSlotBytes;
  SpellingsOf(entry->kind).erase(spelling->asked);
  entry->spellings.erase(spelling);
  entry->bytes -= bytes;
  bytes_.store(bytes_.load(std::memory_order_relaxed) - bytes, std::memory_order_relaxed);
}

void PlanCache::Drop(Entries::iterator entry) {
  Spellings& spellings = SpellingsOf(entry->kind);
  for (const Spelling& spelling : entry->spellings) spellings.erase(spelling.asked);
  by_form_.erase(*entry->form);
  bytes_.store(bytes_.load(std::memory_order_relaxed) - entry->bytes, std::memory_order_relaxed);
  entries_.erase(entry);
  entries_count_.store(entries_.size(), std::memory_order_relaxed);
}

void PlanCache::Charge(Entry& entry, size_t bytes) {
  entry.bytes += bytes;
  bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
}

void PlanCache::Bound() {
  while (bytes_.load(std::memory_order_relaxed) > most_bytes_) Drop(std::prev(entries_.end()));
}

}  // namespace hapmoe::server
