// Why a plan beats another, as text for engineers.
#ifndef HAPMOE_CLIENT_EXPLAIN_TEXT_H_
#define HAPMOE_CLIENT_EXPLAIN_TEXT_H_

#include <string>

#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {

// Both layouts in a line each, the sentences, and the parts of the time side by side.
std::string ExplanationText(const v1::ExplainResponse& response);

// A table of plans that are not the best, and what tells them from it; empty where there are none.
std::string AlternativesText(const v1::PlanAnswer& answer);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_EXPLAIN_TEXT_H_
