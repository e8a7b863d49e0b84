// Figures of this process from /proc, under the names that Prometheus clients agree on.
#ifndef HAPMOE_SERVER_METRICS_PROCESS_METRICS_H_
#define HAPMOE_SERVER_METRICS_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace hapmoe::server {

// Processor time, memory, file descriptors, threads and start time, read when they are collected.
// Thread safe.
class ProcessMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_METRICS_PROCESS_METRICS_H_
