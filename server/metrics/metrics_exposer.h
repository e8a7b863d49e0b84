// Serves metrics over HTTP.
#ifndef HAPMOE_SERVER_METRICS_METRICS_EXPOSER_H_
#define HAPMOE_SERVER_METRICS_METRICS_EXPOSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace hapmoe::server {

// http://HOST:PORT/metrics for as long as it lives. Thread safe.
class MetricsExposer {
 public:
  // HOST is an address, or "localhost"; port 0 takes a free one. Unavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(
      const std::string& listen,
      std::vector<std::shared_ptr<prometheus::Collectable>> collectables);

  ~MetricsExposer();

  int port() const { return port_; }

 private:
  MetricsExposer() = default;

  std::string host_;
  int port_ = 0;
  // The exposer holds its collectables weakly.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_METRICS_METRICS_EXPOSER_H_
