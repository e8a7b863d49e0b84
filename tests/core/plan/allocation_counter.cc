#include "tests/core/plan/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void Count(void* memory) {
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void Uncount(void* memory) {
  live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
}

}  // namespace

// In a file of its own: inlined beside its callers, new and delete would look mismatched to g++.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  Count(memory);
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // Of std::stable_sort.
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  Uncount(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace hapmoe {

int64_t Allocations() { return allocations.load(std::memory_order_relaxed); }
int64_t LiveBytes() { return live_bytes.load(std::memory_order_relaxed); }
int64_t PeakBytes() { return peak_bytes.load(std::memory_order_relaxed); }
void ResetPeakBytes() { peak_bytes.store(LiveBytes(), std::memory_order_relaxed); }

}  // namespace hapmoe
