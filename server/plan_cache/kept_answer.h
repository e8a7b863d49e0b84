// An answer of Plan as it is kept and shared: ready to be sent.
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
  absl::Status status;                // Why there is no plan, with its details; OK where there is.
  std::string wire;                   // A serialized PlanAnswer; empty without a plan.
  std::vector<std::string> plan_ids;  // Of all plans that it shows.
  PlanBasis basis;

  // Memory of all of it, the profiles left out.
  size_t bytes() const;
};
using KeptAnswerPtr = std::shared_ptr<const KeptAnswer>;

KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::PlanAnswer>& answer, PlanBasis basis = {});

// Whether an answer of a search that nobody stopped says the same whenever it is asked for: that of
// a plan, and that nothing fits.
bool MayBeKept(const absl::Status& status);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_KEPT_ANSWER_H_
