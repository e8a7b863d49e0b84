// The calls that are being answered, and the gate that closes when the server drains.
#ifndef HAPMOE_SERVER_CONCURRENCY_CALL_REGISTRY_H_
#define HAPMOE_SERVER_CONCURRENCY_CALL_REGISTRY_H_

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/interrupter.h"
#include "core/base/mutex.h"

namespace hapmoe::server {

// Thread safe.
class CallRegistry {
 public:
  // One admitted call; it counts as in flight until this is destroyed. Used by one thread at a
  // time. Must not outlive the registry.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : registry_(std::exchange(other.registry_, nullptr)), position_(other.position_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket();

   private:
    friend class CallRegistry;
    using Position = std::list<std::shared_ptr<Interrupter>>::iterator;
    Ticket(CallRegistry* registry, Position position) : registry_(registry), position_(position) {}

    CallRegistry* registry_;
    Position position_;
  };

  // Admits a call, or nothing once draining. `interrupter` may be null for a call that does not run
  // long.
  std::optional<Ticket> Admit(std::shared_ptr<Interrupter> interrupter);

  // No call is admitted from now on.
  void StartDrain();
  bool draining() const;

  // Waits until no call is in flight; false if that did not come about in time.
  bool WaitIdle(std::chrono::steady_clock::duration timeout);

  // The grace is over: trips the interrupters of all calls in flight, as their own deadlines would.
  void InterruptAll();
  bool interrupted() const;

  size_t in_flight() const;

 private:
  mutable Mutex mutex_;
  CondVar idle_;  // Signalled when the last call in flight ends.
  std::list<std::shared_ptr<Interrupter>> calls_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_CALL_REGISTRY_H_
