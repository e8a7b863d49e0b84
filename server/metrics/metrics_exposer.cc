#include "server/metrics/metrics_exposer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::server {
namespace {

// Connects and hangs up. Only IPv4: elsewhere nothing happens.
void Touch(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return;
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return;
  (void)connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  close(connection);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const std::string& listen, std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  // The HTTP server takes addresses only.
  constexpr absl::string_view kLocalhost = "localhost:";
  const std::string address =
      absl::StartsWith(listen, kLocalhost)
          ? absl::StrCat("127.0.0.1:", absl::string_view(listen).substr(kLocalhost.size()))
          : listen;
  std::unique_ptr<MetricsExposer> exposer(new MetricsExposer());
  exposer->host_ = address.substr(0, address.rfind(':'));
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

MetricsExposer::~MetricsExposer() {
  if (exposer_ == nullptr) return;
  // The HTTP server looks whether to stop every two seconds, or when somebody connects.
  std::atomic<bool> stopped{false};
  std::thread caller([this, &stopped] {
    while (!stopped) {
      Touch(host_, port_);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  exposer_.reset();
  stopped = true;
  caller.join();
}

}  // namespace hapmoe::server
