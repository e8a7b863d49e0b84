// Files of router statistics: what each expert of a running job received.
#ifndef HAPMOE_CLIENT_ROUTER_STATS_FILE_H_
#define HAPMOE_CLIENT_ROUTER_STATS_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hapmoe/v1/job.pb.h"

namespace hapmoe::client {

// A JSON list with one list for each mixture-of-experts layer of the decoder, in order, of the
// tokens that each of its experts received: [[120, 97, ...], ...]. `path` names the file in errors,
// which are INVALID_ARGUMENT and say where the fault is. Whether the counts fit the job is the
// server's to say.
absl::StatusOr<v1::RouterStatistics> ParseRouterStatistics(const std::string& path,
                                                           absl::string_view text);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_ROUTER_STATS_FILE_H_
