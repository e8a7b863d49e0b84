// Counts what a test program allocates.
#ifndef HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_
#define HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace hapmoe {

// Calls of operator new so far, of all threads.
int64_t Allocations();

}  // namespace hapmoe

#endif  // HAPMOE_TESTS_CORE_PLAN_ALLOCATION_COUNTER_H_
