// What a process uses, by proc(5).
#ifndef HAPMOE_TESTS_BENCH_LOAD_PROCESS_FIGURES_H_
#define HAPMOE_TESTS_BENCH_LOAD_PROCESS_FIGURES_H_

#include <cstdint>

namespace hapmoe::bench {

struct ProcessFigures {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;  // Since it started.
  int64_t descriptors = 0;
  int64_t threads = 0;
  double cpu_seconds = 0;  // User and system.
};

// Of a process, of this one where `pid` is 0; zeros for one that is not there.
ProcessFigures FiguresOf(int pid);

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_LOAD_PROCESS_FIGURES_H_
