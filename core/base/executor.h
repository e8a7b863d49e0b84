// Runs independent pieces of work; core makes no threads of its own.
#ifndef HAPMOE_CORE_BASE_EXECUTOR_H_
#define HAPMOE_CORE_BASE_EXECUTOR_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace hapmoe {

// Runs the iterations of a loop, on as many threads as the implementation has to spare.
class Executor {
 public:
  virtual ~Executor() = default;

  // Calls body(0) ... body(count - 1), each once, in any order, possibly at the same time, and
  // returns when all have returned. The caller's thread takes part, so nested calls cannot
  // deadlock.
  virtual void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body) = 0;
};

// Runs everything on the caller's thread, in order.
class InlineExecutor : public Executor {
 public:
  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
};

}  // namespace hapmoe

#endif  // HAPMOE_CORE_BASE_EXECUTOR_H_
