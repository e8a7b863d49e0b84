// A program with a data race, for the test that the ThreadSanitizer build reports one.
#include <cstdint>
#include <cstdio>

#include "server/concurrency/thread_pool.h"

int main() {
  hapmoe::server::ThreadPool pool(/*threads=*/4, /*queue_capacity=*/1);
  int64_t sum = 0;
  pool.ParallelFor(1 << 20, [&sum](int64_t i) { sum += i; });  // Unguarded on purpose.
  std::printf("%lld\n", static_cast<long long>(sum));
}
