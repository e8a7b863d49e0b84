// Processor time that several threads spend on one call.
#ifndef HAPMOE_SERVER_CONCURRENCY_CPU_METER_H_
#define HAPMOE_SERVER_CONCURRENCY_CPU_METER_H_

#include <time.h>

#include <atomic>
#include <cstdint>

namespace hapmoe::server {

// Processor time of the calling thread since it began.
inline int64_t ThreadCpuNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// A sum. Thread safe.
class CpuMeter {
 public:
  void AddNanoseconds(int64_t nanoseconds) {
    nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  double seconds() const { return 1e-9 * nanoseconds_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> nanoseconds_{0};
};

// Adds the calling thread's processor time between construction and destruction to a meter, if
// there is one. Used by one thread.
class ScopedCpu {
 public:
  explicit ScopedCpu(CpuMeter* meter)
      : meter_(meter), start_(meter == nullptr ? 0 : ThreadCpuNanoseconds()) {}
  ~ScopedCpu() {
    if (meter_ != nullptr) meter_->AddNanoseconds(ThreadCpuNanoseconds() - start_);
  }
  ScopedCpu(const ScopedCpu&) = delete;
  ScopedCpu& operator=(const ScopedCpu&) = delete;

 private:
  CpuMeter* const meter_;
  const int64_t start_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_CPU_METER_H_
