// Requests for tests: small jobs and clusters without a fault, to change one field of.
#ifndef HAPMOE_TESTS_SERVER_TESTING_REQUESTS_H_
#define HAPMOE_TESTS_SERVER_TESTING_REQUESTS_H_

#include <string>
#include <vector>

#include "hapmoe/v1/planner.pb.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::server {

// A dense model of 8 layers, with a batch of 64 sequences.
std::vector<std::string> SmallJob();

v1::Cluster ClusterOf(const std::string& accelerator, uint32_t nodes);

// SmallJob on one node of H800.
v1::PlanRequest SmallPlanRequest();

// SmallJob, tp 2 and pp 2, on one node of H800.
v1::EvaluateRequest SmallEvaluateRequest();

// A profile with round figures, under a name of its own.
v1::AcceleratorProfile RoundProfile(const std::string& name);

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_REQUESTS_H_
