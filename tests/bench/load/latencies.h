// Times of many calls, in buckets.
#ifndef HAPMOE_TESTS_BENCH_LOAD_LATENCIES_H_
#define HAPMOE_TESTS_BENCH_LOAD_LATENCIES_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace hapmoe::bench {

// A quantile is that of its bucket's upper end, 2 % more than the least in it at most. From a
// microsecond to an hour. Thread safe: adding is two atomic additions.
class Latencies {
 public:
  void Add(std::chrono::nanoseconds time) {
    const double seconds = std::chrono::duration<double>(time).count();
    const double bucket = std::ceil(std::log(seconds / kLeast) / kStep);
    const auto index = static_cast<size_t>(
        std::fmin(std::fmax(bucket, 0), static_cast<double>(counts_.size() - 1)));
    counts_[index].fetch_add(1, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  int64_t count() const { return count_.load(std::memory_order_relaxed); }

  // 0 without calls. `quantile`: above 0, at most 1.
  double QuantileSeconds(double quantile) const {
    const double wanted = quantile * static_cast<double>(count());
    int64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i].load(std::memory_order_relaxed);
      if (seen > 0 && static_cast<double>(seen) >= wanted) {
        return kLeast * std::exp(static_cast<double>(i) * kStep);
      }
    }
    return 0;
  }
  double MostSeconds() const { return QuantileSeconds(1); }

 private:
  static constexpr double kLeast = 1e-6;
  static constexpr double kStep = 0.0198;  // ln 1.02

  std::array<std::atomic<int64_t>, 1112> counts_ = {};  // ln(3600 / kLeast) / kStep
  std::atomic<int64_t> count_{0};
};

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_LOAD_LATENCIES_H_
