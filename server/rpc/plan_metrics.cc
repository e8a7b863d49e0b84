#include "server/rpc/plan_metrics.h"

namespace hapmoe::server {

void PlanMetrics::OnSearched(const absl::StatusOr<v1::PlanAnswer>& answer) {
  if (answer.ok()) {
    metrics_.RecordAnswer(*answer);
  } else {
    metrics_.RecordSearchError(answer.status());
  }
}

}  // namespace hapmoe::server
