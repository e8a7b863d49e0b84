#include "server/metrics/metrics_exposer.h"

#include <exception>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::server {

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const std::string& listen, std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  // The HTTP server takes addresses only.
  constexpr absl::string_view kLocalhost = "localhost:";
  const std::string address =
      absl::StartsWith(listen, kLocalhost)
          ? absl::StrCat("127.0.0.1:", absl::string_view(listen).substr(kLocalhost.size()))
          : listen;
  std::unique_ptr<MetricsExposer> exposer(new MetricsExposer());
  exposer->collectables_ = std::move(collectables);
  // It throws when the address is taken or none; nothing else here throws.
  try {
    exposer->exposer_ = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/2);
    const std::vector<int> ports = exposer->exposer_->GetListeningPorts();
    if (!ports.empty()) exposer->port_ = ports.front();
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", listen, ": ", error.what()));
  }
  for (const auto& collectable : exposer->collectables_) {
    exposer->exposer_->RegisterCollectable(collectable);
  }
  return exposer;
}

}  // namespace hapmoe::server
