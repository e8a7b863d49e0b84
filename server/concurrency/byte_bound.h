// A bound on bytes that many hold together.
#ifndef HAPMOE_SERVER_CONCURRENCY_BYTE_BOUND_H_
#define HAPMOE_SERVER_CONCURRENCY_BYTE_BOUND_H_

#include <atomic>
#include <cstddef>

namespace hapmoe::server {

// Thread safe; calls take no lock.
class ByteBound {
 public:
  explicit ByteBound(size_t most) : most_(most) {}

  // False, with nothing taken, where it would be too much.
  bool Take(size_t bytes) {
    size_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (bytes > most_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return true;
  }
  // What Take took.
  void Give(size_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  const size_t most_;
  std::atomic<size_t> taken_{0};
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_BYTE_BOUND_H_
