// A one-shot signal that asks a long computation to stop.
#ifndef HAPMOE_CORE_BASE_INTERRUPTER_H_
#define HAPMOE_CORE_BASE_INTERRUPTER_H_

#include <atomic>

namespace hapmoe {

// Tripped at most once, by a deadline, by a caller that went away or for lack of memory
// (memory_budget.h); polled by the computation.
// Thread safe. Polling is one relaxed load.
class Interrupter {
 public:
  enum class Cause { kNone, kTime, kCancelled, kMemory };

  // The first cause wins.
  void Trip(Cause cause) {
    Cause none = Cause::kNone;
    cause_.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
  }
  bool tripped() const { return cause_.load(std::memory_order_relaxed) != Cause::kNone; }
  Cause cause() const { return cause_.load(std::memory_order_acquire); }

 private:
  std::atomic<Cause> cause_{Cause::kNone};
};

}  // namespace hapmoe

#endif  // HAPMOE_CORE_BASE_INTERRUPTER_H_
