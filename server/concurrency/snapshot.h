// An immutable value that is read often and replaced seldom.
#ifndef HAPMOE_SERVER_CONCURRENCY_SNAPSHOT_H_
#define HAPMOE_SERVER_CONCURRENCY_SNAPSHOT_H_

#include <memory>
#include <utility>

#include "core/base/mutex.h"

namespace hapmoe::server {

// A reader keeps the value it got for as long as it likes, whatever is set meanwhile. Reading costs
// an uncontended lock and a reference count; std::atomic<std::shared_ptr> costs the same in
// libstdc++ 12 and cannot be checked by ThreadSanitizer.
//
// Thread safe.
template <typename T>
class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> Get() const {
    MutexLock lock(mutex_);
    return value_;
  }

  void Set(std::shared_ptr<const T> value) {
    MutexLock lock(mutex_);
    value_.swap(value);  // The old value ends outside the lock, with the argument.
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_SNAPSHOT_H_
