// One form for all spellings of a request that is searched for.
#ifndef HAPMOE_SERVER_PLAN_CACHE_CANONICAL_REQUEST_H_
#define HAPMOE_SERVER_PLAN_CACHE_CANONICAL_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::server {

// Whose answers are kept. Forms of two kinds differ.
enum class AnswerKind { kPlan, kFrontier, kExplain };
inline constexpr size_t kAnswerKinds = 3;

constexpr AnswerKind KindOf(const v1::PlanRequest&) { return AnswerKind::kPlan; }
constexpr AnswerKind KindOf(const v1::FrontierRequest&) { return AnswerKind::kFrontier; }
constexpr AnswerKind KindOf(const v1::ExplainRequest&) { return AnswerKind::kExplain; }

// Two requests with the same form get answers that say the same, the times of their searches aside,
// from a planner of one version over one basis. It starts from the whole request, so that fields
// and unknown fields count unless something here says otherwise: defaults are filled in, the order
// of what is a set does not count (allowed degrees and dispatchers, links and their two sides,
// maps), and request_id, cache_policy and constraints.time_budget are left out. What reaches the
// answer in its order counts in its order: arguments of the job, which the launcher repeats, pools
// and hosts. `request` must be without faults: it may not be told from a faulty one otherwise.
std::string CanonicalForm(const v1::PlanRequest& request, absl::string_view planner_version);
std::string CanonicalForm(const v1::FrontierRequest& request, absl::string_view planner_version);
std::string CanonicalForm(const v1::ExplainRequest& request, absl::string_view planner_version);

// The request that a form was made of, in its one spelling; nothing for other bytes, and for
// another kind of request. For PlanRequest and ExplainRequest.
template <typename Request>
std::optional<Request> RequestOf(const std::string& canonical_form);

// A form and the time that was allowed for it: what a request is, as far as its caller can tell.
struct RequestIdentity {
  std::shared_ptr<const std::string> form;  // Never null.
  int64_t budget_nanoseconds = 0;           // 0: the server's.
  AnswerKind kind = AnswerKind::kPlan;      // As the form says too.

  bool operator==(const RequestIdentity& other) const {
    return budget_nanoseconds == other.budget_nanoseconds &&
           (form == other.form || *form == *other.form);
  }
};

// Of one of these requests.
template <typename Request>
RequestIdentity IdentityOf(const Request& request, absl::string_view planner_version);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_CANONICAL_REQUEST_H_
