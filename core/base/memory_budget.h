// The memory that computations beside each other may have, and what each of them has of it.
#ifndef HAPMOE_CORE_BASE_MEMORY_BUDGET_H_
#define HAPMOE_CORE_BASE_MEMORY_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/interrupter.h"
#include "core/base/mutex.h"

namespace hapmoe {

// Half of it is for whoever comes first; of the other half, `slots` computations at a time have an
// equal share that nobody else takes. With one slot all of it is that one's.
//
// Thread safe.
class MemoryBudget {
 public:
  MemoryBudget(int64_t most_bytes, int64_t slots)
      : most_bytes_(most_bytes),
        share_bytes_(slots == 1 ? most_bytes : most_bytes / 2 / slots),
        free_slots_(slots),
        common_bytes_(most_bytes - share_bytes_ * slots) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  int64_t most_bytes() const { return most_bytes_; }
  // What one computation can have at most.
  int64_t most_alone_bytes() const { return share_bytes_ + common_bytes_; }
  // What all have now.
  int64_t used_bytes() const {
    MutexLock lock(mutex_);
    return used_bytes_;
  }

 private:
  friend class MemoryMeter;

  // The share of a computation that begins: 0 where all slots are taken.
  int64_t Enter() {
    MutexLock lock(mutex_);
    if (free_slots_ == 0) return 0;
    --free_slots_;
    return share_bytes_;
  }
  void Leave(int64_t share) {
    MutexLock lock(mutex_);
    if (share > 0) ++free_slots_;
  }
  // A computation goes from so many bytes to so many; false where that is more than is left.
  bool Move(int64_t share, int64_t from, int64_t to) {
    const int64_t common = std::max<int64_t>(0, to - share) - std::max<int64_t>(0, from - share);
    MutexLock lock(mutex_);
    if (common > 0 && common_used_bytes_ + common > common_bytes_) return false;
    common_used_bytes_ += common;
    used_bytes_ += to - from;
    return true;
  }

  const int64_t most_bytes_;
  const int64_t share_bytes_;
  mutable Mutex mutex_;
  int64_t free_slots_ ABSL_GUARDED_BY(mutex_);
  const int64_t common_bytes_;
  int64_t common_used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What one computation has. The first refusal trips its interrupter: it ends with what it has.
//
// Thread safe.
class MemoryMeter {
 public:
  // Both must outlive this object.
  MemoryMeter(MemoryBudget& budget, Interrupter& interrupter)
      : budget_(budget), interrupter_(interrupter), share_(budget.Enter()) {}
  ~MemoryMeter() { budget_.Leave(share_); }
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Called before memory is allocated: false, with nothing charged, where there is too little.
  bool Charge(int64_t bytes) {
    MutexLock lock(mutex_);
    if (!budget_.Move(share_, used_bytes_, used_bytes_ + bytes)) {
      wanted_bytes_ = std::max(wanted_bytes_, used_bytes_ + bytes);
      interrupter_.Trip(Interrupter::Cause::kMemory);
      return false;
    }
    used_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    return true;
  }
  // Called after memory is freed.
  void Release(int64_t bytes) {
    MutexLock lock(mutex_);
    budget_.Move(share_, used_bytes_, used_bytes_ - bytes);
    used_bytes_ -= bytes;
  }

  const MemoryBudget& budget() const { return budget_; }
  int64_t used_bytes() const {
    MutexLock lock(mutex_);
    return used_bytes_;
  }
  int64_t peak_bytes() const {
    MutexLock lock(mutex_);
    return peak_bytes_;
  }
  // The most that it would have had, had nothing been refused; 0 where nothing was.
  int64_t wanted_bytes() const {
    MutexLock lock(mutex_);
    return wanted_bytes_;
  }

 private:
  MemoryBudget& budget_;
  Interrupter& interrupter_;
  const int64_t share_;
  mutable Mutex mutex_;
  int64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wanted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What one holder has charged to a meter, for as long as it lives. Add is thread safe.
class MemoryCharge {
 public:
  explicit MemoryCharge(MemoryMeter* meter = nullptr) : meter_(meter) {}  // Null: nobody counts.
  ~MemoryCharge() { Clear(); }
  MemoryCharge(MemoryCharge&& other) noexcept
      : meter_(other.meter_), bytes_(other.bytes_.exchange(0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    if (this == &other) return *this;
    Clear();
    meter_ = other.meter_;
    bytes_ = other.bytes_.exchange(0);
    return *this;
  }

  // Called before memory is allocated: false, with nothing charged, where there is too little.
  bool Add(int64_t bytes) {
    if (meter_ == nullptr) return true;
    if (!meter_->Charge(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Called after some is freed.
  void Subtract(int64_t bytes) {
    if (meter_ == nullptr) return;
    meter_->Release(bytes);
    bytes_ -= bytes;
  }
  void Clear() {
    if (bytes_ > 0) Subtract(bytes_);
  }

  // Makes room for `size` elements in all, if need be for twice as many as before: what the vector
  // would do, counted, with the copy that it makes. False, with nothing done, where there is too
  // little memory.
  template <typename T>
  bool Reserve(std::vector<T>& vector, size_t size) {
    if (size <= vector.capacity()) return true;
    const size_t capacity = std::max(size, 2 * vector.capacity());
    const auto bytes = [](size_t count) { return static_cast<int64_t>(count * sizeof(T)); };
    if (!Add(bytes(capacity))) return false;
    const size_t before = vector.capacity();
    vector.reserve(capacity);
    Subtract(bytes(before));
    return true;
  }

 private:
  MemoryMeter* meter_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace hapmoe

#endif  // HAPMOE_CORE_BASE_MEMORY_BUDGET_H_
