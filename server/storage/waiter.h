// A pause that can be ended.
#ifndef HAPMOE_SERVER_STORAGE_WAITER_H_
#define HAPMOE_SERVER_STORAGE_WAITER_H_

#include <chrono>

#include "core/base/mutex.h"

namespace hapmoe::server {

// Thread safe.
class Waiter {
 public:
  // False if End was called, before or meanwhile.
  bool Wait(std::chrono::milliseconds timeout) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mutex_);
    while (!ended_ && std::chrono::steady_clock::now() < until) end_.WaitUntil(mutex_, until);
    return !ended_;
  }

  void End() {
    MutexLock lock(mutex_);
    ended_ = true;
    end_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar end_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_WAITER_H_
