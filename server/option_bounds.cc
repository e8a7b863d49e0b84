#include "server/option_bounds.h"

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace hapmoe::server {
namespace {

constexpr int kMostThreads = 4096;
constexpr size_t kMostQueued = 1'000'000;
constexpr size_t kMostMessageBytes = size_t{1} << 30;  // gRPC counts them in an int.
// A plan of some hundred accelerators takes some ten MiB.
constexpr int64_t kLeastSearchMemory = int64_t{16} << 20;
constexpr int64_t kMostSearchMemory = int64_t{1} << 50;
constexpr std::chrono::hours kLongestSearch{24};
constexpr uint32_t kMostPort = 65535;

absl::Status Refuse(absl::string_view flag, absl::string_view what, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be ", what, ", not ", value));
}

absl::Status RefuseAbove(absl::string_view flag, uint64_t most, uint64_t value) {
  return Refuse(flag, absl::StrCat("at most ", most), absl::StrCat(value));
}

// HOST:PORT. What HOST is, is found when it is listened on.
bool IsHostAndPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  uint32_t port = 0;
  const absl::string_view digits = address.substr(colon + 1);
  return digits.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(digits, &port) && port <= kMostPort;
}

absl::Status CheckAddresses(const ServerOptions& options) {
  const absl::string_view listen = options.listen;
  constexpr absl::string_view kUnix = "unix:";
  const bool is_path = listen.substr(0, kUnix.size()) == kUnix && listen.size() > kUnix.size();
  if (!is_path && !IsHostAndPort(listen)) {
    return Refuse("listen", "HOST:PORT, with a port of 65535 at most, or unix:PATH", listen);
  }
  if (!options.metrics_listen.empty() && !IsHostAndPort(options.metrics_listen)) {
    return Refuse("metrics_listen", "HOST:PORT, with a port of 65535 at most, or empty",
                  options.metrics_listen);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOptionBounds(const ServerOptions& options) {
  HAPMOE_RETURN_IF_ERROR(CheckAddresses(options));
  if (options.search_threads > kMostThreads) {
    return RefuseAbove("search_threads", kMostThreads, options.search_threads);
  }
  if (options.queue_size > kMostQueued) {
    return RefuseAbove("queue_size", kMostQueued, options.queue_size);
  }
  if (options.max_search_memory < kLeastSearchMemory ||
      options.max_search_memory > kMostSearchMemory) {
    return Refuse("max_search_memory",
                  absl::StrCat("from ", kLeastSearchMemory, " to ", kMostSearchMemory),
                  absl::StrCat(options.max_search_memory));
  }
  if (options.max_message_bytes > kMostMessageBytes) {
    return RefuseAbove("max_message_bytes", kMostMessageBytes, options.max_message_bytes);
  }
  if (options.max_request_memory < options.max_message_bytes) {
    return Refuse("max_request_memory", "at least --max_message_bytes",
                  absl::StrCat(options.max_request_memory));
  }
  if (options.max_time_budget > kLongestSearch) {
    return absl::InvalidArgumentError("--max_time_budget must be at most 24h");
  }
  return absl::OkStatus();
}

}  // namespace hapmoe::server
