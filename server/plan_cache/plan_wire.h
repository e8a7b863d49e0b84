// Requests and responses of Plan, Frontier and Explain as bytes: what a call says is told apart
// from what it asks, and a kept answer is sent, without messages being built.
#ifndef HAPMOE_SERVER_PLAN_CACHE_PLAN_WIRE_H_
#define HAPMOE_SERVER_PLAN_CACHE_PLAN_WIRE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::server {

// A serialized request in parts. Points into the bytes that it was read from.
struct PlanWire {
  absl::string_view request_id;
  v1::CachePolicy policy = v1::CACHE_POLICY_UNSPECIFIED;
  // All other fields as they were written. Equal bytes ask the same; the opposite does not hold.
  absl::string_view asked;
  std::string joined;  // Where `asked` is not one piece of the bytes; it points here then.

  PlanWire() = default;
  PlanWire(const PlanWire&) = delete;
  PlanWire& operator=(const PlanWire&) = delete;
};

// False where the bytes are no message; which bytes are the message's, a parser decides.
bool ReadPlanWire(absl::string_view bytes, PlanWire& wire);

// What comes before the bytes of KeptAnswer::wire, so that both together are a serialized response.
std::string ResponseHead(absl::string_view request_id, v1::AnswerSource source);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_PLAN_WIRE_H_
