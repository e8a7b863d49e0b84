// How a change is tried again that another server was faster with.
#ifndef HAPMOE_SERVER_STORAGE_BACK_OFF_H_
#define HAPMOE_SERVER_STORAGE_BACK_OFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

namespace hapmoe::server {

// Of one change. Each but the last fails only because another server changed something at the same
// moment.
inline constexpr int kMostAttempts = 16;

// Sleeps for a random time, longer with each attempt, 0.1 ms at most after the first and 25 ms
// after the ninth: of many that try at once each has its turn before long.
inline void BackOff(int attempt) {
  thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int64_t> microseconds(0, int64_t{50} << std::min(attempt, 9));
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
}

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_BACK_OFF_H_
