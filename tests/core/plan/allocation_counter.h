// Counts what a test program allocates.
#ifndef HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_
#define HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace hapmoe {

// Calls of operator new so far, of all threads.
int64_t Allocations();

// Bytes that new gave and delete did not take back, and the most since ResetPeakBytes.
int64_t LiveBytes();
int64_t PeakBytes();
void ResetPeakBytes();

}  // namespace hapmoe

#endif  // HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_
