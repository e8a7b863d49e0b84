// Loaded before the C library: the time of day is off by as much as a file says, in nanoseconds.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

const volatile int64_t* Offset() {
  static const volatile int64_t* const offset = []() -> const volatile int64_t* {
    const char* const path = getenv("HAPMOE_CLOCK_OFFSET");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return nullptr;
    void* const page = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return page == MAP_FAILED ? nullptr : static_cast<const volatile int64_t*>(page);
  }
  ();
  return offset;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const volatile int64_t* const offset = Offset();
  if (offset == nullptr) return result;
  const int64_t now = time->tv_sec * kSecond + time->tv_nsec + *offset;
  time->tv_sec = now / kSecond;
  time->tv_nsec = now % kSecond;
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

extern "C" time_t time(time_t* seconds) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != nullptr) *seconds = now.tv_sec;
  return now.tv_sec;
}
