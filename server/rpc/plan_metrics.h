// What the desk tells of its calls, in metrics.
#ifndef HAPMOE_SERVER_RPC_PLAN_METRICS_H_
#define HAPMOE_SERVER_RPC_PLAN_METRICS_H_

#include "server/metrics/metrics.h"
#include "server/plan_cache/plan_desk.h"

namespace hapmoe::server {

// Thread safe.
class PlanMetrics : public PlanDesk::Listener {
 public:
  // `metrics` must outlive this, and have been made with kLookupNames.
  explicit PlanMetrics(Metrics& metrics) : metrics_(metrics) {}

  void OnStart(std::chrono::nanoseconds waited) override { metrics_.RecordQueueWait(waited); }
  void OnSearched(const absl::StatusOr<v1::PlanAnswer>& answer) override;
  void OnLookup(Lookup lookup) override { metrics_.RecordCacheLookup(static_cast<size_t>(lookup)); }

 private:
  Metrics& metrics_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_PLAN_METRICS_H_
