// Builds the errors that a caller sees: a status with one google.rpc.ErrorInfo and what else the
// situation asks for, as payloads of an absl::Status.
//
// Details travel in a trailer, and clients refuse trailers of more than 8 KiB: texts are cut and
// lists end early, with their full length in the metadata.
#ifndef HAPMOE_SERVER_ERRORS_ERRORS_H_
#define HAPMOE_SERVER_ERRORS_ERRORS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "google/protobuf/message.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/errors/reasons.h"

namespace hapmoe::server {

inline constexpr char kErrorDomain[] = "hapmoe";

using Metadata = std::map<std::string, std::string>;

// The reason's status. `detail` follows its sentence in the message.
absl::Status Error(Reason reason, absl::string_view detail = "", const Metadata& metadata = {});

// Faults of a request, all of them, in BadRequest. `violations` must not be empty.
absl::Status InvalidError(Reason reason, const Violations& violations);

// An accelerator type without a profile, and the names that come near it.
struct MissingProfile {
  std::string accelerator;
  std::vector<std::string> nearest;
};

// ResourceInfo names the first, the message and the metadata name all. `missing` must not be empty.
absl::Status ProfileNotFoundError(const std::vector<MissingProfile>& missing);

// Nothing fits: what binds, and what would fit.
struct BindingConstraint {
  std::string rule;
  std::string subject;  // "stage 3" for example.
  std::string description;
  std::string suggestion;             // The smallest change that would fit, in words; may be empty.
  double bytes_short = 0;             // 0: it is not memory that binds.
  v1::SuggestedChanges changes = {};  // Every change that would fit.
};
// Of `changes` as many alternatives as a trailer can hold, and all that are needed together or
// none.
absl::Status NoPlanFitsError(const BindingConstraint& binding);

absl::Status QueueFullError(std::chrono::milliseconds retry_after);

// A search that memory was refused to before it had a plan.
struct SearchMemory {
  int64_t wanted_bytes = 0;      // What it would have had, had nothing been refused.
  int64_t most_alone_bytes = 0;  // What one search can have.
  int64_t most_bytes = 0;        // What all have together.
};
// With RetryInfo where it is others that have what it lacked.
absl::Status SearchTooLargeError(const SearchMemory& memory, std::chrono::milliseconds retry_after);

// A change that could not be stored. Of the cause only its code is told: the rest is for the log.
absl::Status StorageError(const absl::Status& cause);

// Adds a detail message, at most one of a type.
void AddDetail(const google::protobuf::Message& detail, absl::Status& status);

// The form that travels. A status without ErrorInfo, which only a fault of ours produces, becomes
// an internal fault that does not show its message.
google::rpc::Status ToWire(const absl::Status& status);

// The reason of a status that this file built; kInternalFault for any other error.
Reason ReasonOf(const absl::Status& status);

// The faults that a status tells: as many as InvalidError kept.
Violations ViolationsOf(const absl::Status& status);

// A value of a status's metadata; empty if there is none.
std::string MetadataOf(const absl::Status& status, const std::string& key);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_ERRORS_ERRORS_H_
