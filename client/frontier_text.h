// What allocations of a cluster give, as text for engineers.
#ifndef HAPMOE_CLIENT_FRONTIER_TEXT_H_
#define HAPMOE_CLIENT_FRONTIER_TEXT_H_

#include <string>

#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {

// A table with a line for each point.
std::string FrontierText(const v1::FrontierResponse& response);

// The allocation that an objective picked, why, and the others that were tried.
std::string ChoiceText(const v1::AllocationChoice& choice);

// "h800 2 nodes, a100 1 node".
std::string AllocationText(const google::protobuf::RepeatedPtrField<v1::PoolNodes>& allocation);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_FRONTIER_TEXT_H_
