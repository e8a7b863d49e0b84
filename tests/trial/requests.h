// What trials ask: requests that cost nothing much, and ones that would search for minutes.
#ifndef HAPMOE_TESTS_TRIAL_REQUESTS_H_
#define HAPMOE_TESTS_TRIAL_REQUESTS_H_

#include <chrono>
#include <cstdint>

#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::trial {

// Requests of one number are equal; those of different ones differ in what does not change how long
// they take, so that none shares an answer of another.

// Of milliseconds.
v1::PlanRequest SmallPlan(int64_t number);
v1::EvaluateRequest SmallEvaluate();
v1::FrontierRequest SmallFrontier(int64_t number);
v1::ExplainRequest SmallExplain(int64_t number);
// Of another accelerator type than the others: what they are answered does not depend on it.
v1::IterationReport SmallReport(double iteration_seconds);

// On 512 accelerators of two types: a plan that takes seconds, and a frontier of a minute and more,
// unless their `budget` ends before.
v1::PlanRequest LongPlan(int64_t number, std::chrono::milliseconds budget);
v1::FrontierRequest LongFrontier(int64_t number, std::chrono::milliseconds budget);

v1::StreamPlanRequest Streamed(const v1::PlanRequest& request);

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_REQUESTS_H_
