// Answers by what they answer, within a bound on their memory.
#ifndef HAPMOE_SERVER_PLAN_CACHE_PLAN_CACHE_H_
#define HAPMOE_SERVER_PLAN_CACHE_PLAN_CACHE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "server/plan_cache/canonical_request.h"
#include "server/plan_cache/kept_answer.h"
#include "server/planning/plan_basis.h"

namespace hapmoe::server {

// A view of profiles and its number: views with one number are the same.
struct NumberedView {
  ProfileView view;
  uint64_t number = 0;
};

// Keys are whole requests, which are compared byte for byte: an answer is never another's. Beside
// its canonical form an answer is found by the few spellings of it that were used last, without the
// request being read. One whose basis does not hold any more is never given. What was used longest
// ago goes first when there is too much.
//
// Thread safe; calls take a lock for less than a microsecond, but for those that say otherwise.
class PlanCache {
 public:
  // Beyond this many bytes, keys and an estimate of its own tables included, nothing is kept; 0:
  // nothing at all.
  explicit PlanCache(size_t most_bytes) : most_bytes_(most_bytes) {}

  struct Found {
    KeptAnswerPtr answer;
    RequestIdentity identity;
  };
  // By the bytes of PlanWire::asked.
  std::optional<Found> FindSpelling(AnswerKind kind, absl::string_view asked,
                                    const NumberedView& now);
  // By form. `asked` is a spelling of it to be found by from now on; none where it is empty.
  std::optional<Found> FindForm(const RequestIdentity& identity, absl::string_view asked,
                                const NumberedView& now);

  // Keeps an answer in place of another that the form may have.
  void Store(const RequestIdentity& identity, absl::string_view asked, KeptAnswerPtr answer);

  // Drops all whose basis does not hold, so that profiles which are not in force any more can go.
  // Holds the lock for some entries at a time.
  void DropStale(const NumberedView& now);

  // An answer that shows a plan of this id, whether its basis holds or not. Looks at every entry.
  std::optional<Found> FindPlan(absl::string_view plan_id) const;

  size_t entries() const { return entries_count_.load(std::memory_order_relaxed); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t most_bytes() const { return most_bytes_; }

 private:
  struct Spelling {
    std::string asked;
    int64_t budget_nanoseconds = 0;
  };
  struct Entry {
    AnswerKind kind = AnswerKind::kPlan;
    std::shared_ptr<const std::string> form;
    KeptAnswerPtr answer;
    uint64_t view_number = 0;  // Of the last view in which its basis was seen to hold; 0: none.
    std::list<Spelling> spellings;  // The last one used first.
    size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  // Whether an entry may be given; drops it where it may not.
  bool Holds(Entries::iterator entry, const NumberedView& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSpelling(Entries::iterator entry, absl::string_view asked, int64_t budget_nanoseconds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSpelling(Entries::iterator entry, std::list<Spelling>::iterator spelling)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Charge(Entry& entry, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Bound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_;
  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // The last one used first.
  // Keys point into entries.
  absl::flat_hash_map<absl::string_view, Entries::iterator> by_form_ ABSL_GUARDED_BY(mutex_);
  struct Place {
    Entries::iterator entry;
    std::list<Spelling>::iterator spelling;
  };
  using Spellings = absl::flat_hash_map<absl::string_view, Place>;
  Spellings& SpellingsOf(AnswerKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return by_spelling_[static_cast<size_t>(kind)];
  }
  std::array<Spellings, kAnswerKinds> by_spelling_ ABSL_GUARDED_BY(mutex_);
  // Changed under the lock, read without.
  std::atomic<size_t> entries_count_{0};
  std::atomic<size_t> bytes_{0};
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_PLAN_CACHE_H_
