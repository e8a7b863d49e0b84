// The answers of late by the ids that callers gave their requests.
#ifndef HAPMOE_SERVER_PLAN_CACHE_REQUEST_IDS_H_
#define HAPMOE_SERVER_PLAN_CACHE_REQUEST_IDS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "server/plan_cache/canonical_request.h"
#include "server/plan_cache/kept_answer.h"
#include "server/plan_cache/plan_cache.h"

namespace hapmoe::server {

// An id belongs to one request while calls with it are under way and for `window` after its first
// answer. Ids that were answered longest ago are forgotten when there are too many.
//
// Thread safe; calls take a lock for less than a microsecond. An empty id is none.
class RequestIds {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    // Of ids, their requests and answers; those that others hold too are counted here again. 0: no
    // id is recognised.
    size_t most_bytes = size_t{8} << 20;
    std::chrono::nanoseconds window = std::chrono::minutes(10);
  };
  explicit RequestIds(const Options& options) : options_(options) {}

  enum class Verdict {
    kFirst,     // The call is to be answered.
    kAnswered,  // The same was answered before.
    kOther,     // Another request has the id.
  };
  struct Claim {
    Verdict verdict = Verdict::kFirst;
    KeptAnswerPtr answer;  // Of kAnswered.
  };

  // A call has an answer already. Gives the first one, where there is one that still holds.
  Claim Answer(absl::string_view id, const RequestIdentity& identity, const KeptAnswerPtr& answer,
               const NumberedView& now, TimePoint time);

  // A call begins. Where it is kFirst, Settle must follow. `anew`: the first answer is not wanted.
  Claim Begin(absl::string_view id, const RequestIdentity& identity, bool anew,
              const NumberedView& now, TimePoint time);
  // Such a call ended: with an answer, or with null where it leaves no trace.
  void Settle(absl::string_view id, const RequestIdentity& identity, const KeptAnswerPtr& answer,
              TimePoint time);

  size_t size() const;
  size_t bytes() const;

 private:
  struct Record {
    std::string id;
    RequestIdentity identity;
    KeptAnswerPtr answer;  // Null: there is none yet.
    int under_way = 0;
    TimePoint until;  // Of an answer.
    size_t bytes = 0;
  };
  using Records = std::list<Record>;

  // The record of an id that is in force; end() where there is none.
  Records::iterator Find(absl::string_view id, TimePoint time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Records::iterator Add(absl::string_view id, const RequestIdentity& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAnswer(Records::iterator record, const KeptAnswerPtr& answer, TimePoint time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Records::iterator record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  Records records_ ABSL_GUARDED_BY(mutex_);  // The last one answered or begun first.
  absl::flat_hash_map<absl::string_view, Records::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_REQUEST_IDS_H_
