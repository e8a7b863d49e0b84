// An answer of a searching call as it is kept and shared: ready to be sent.
#ifndef HAPMOE_SERVER_PLAN_CACHE_KEPT_ANSWER_H_
#define HAPMOE_SERVER_PLAN_CACHE_KEPT_ANSWER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/plan_basis.h"

namespace hapmoe::server {

// Immutable: thread safe.
struct KeptAnswer {
  absl::Status status;  // Why there is no answer, with its details; OK where there is one.
  // A serialized response without request_id and source; empty where there is none.
  std::string wire;
  std::vector<std::string> plan_ids;  // Of all plans that it shows which may be reported.
  PlanBasis basis;

  // Memory of all of it, the profiles left out.
  size_t bytes() const;
};
using KeptAnswerPtr = std::shared_ptr<const KeptAnswer>;

// Of Plan, Frontier and Explain.
KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::PlanAnswer>& answer, PlanBasis basis = {});
KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::FrontierResponse>& response, PlanBasis basis);
KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::ExplainResponse>& response, PlanBasis basis);
// Of a call that failed.
KeptAnswerPtr MakeKeptFailure(const absl::Status& status, PlanBasis basis = {});

// Whether an answer of a search that nobody stopped says the same whenever it is asked for: that of
// a plan, and that nothing fits.
bool MayBeKept(const absl::Status& status);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_KEPT_ANSWER_H_
