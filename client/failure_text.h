// A failed call in words: what went wrong, all of it, and what to do next.
#ifndef HAPMOE_CLIENT_FAILURE_TEXT_H_
#define HAPMOE_CLIENT_FAILURE_TEXT_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/console.h"
#include "google/rpc/error_details.pb.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {

// The details of a failed call, as far as the server sent them.
struct FailureDetails {
  std::vector<google::rpc::BadRequest::FieldViolation> fields;
  std::vector<google::rpc::PreconditionFailure::Violation> conditions;
  std::vector<google::rpc::ResourceInfo> resources;
  v1::SuggestedChanges changes;
  std::string reason;      // "STORAGE_FAILED" for example.
  std::string suggestion;  // The part of the status's message that says what would be enough.
  std::optional<absl::Duration> retry_delay;
};

FailureDetails ReadDetails(const grpc::Status& status);

// kRefused where the request is at fault, kServerFailed where asking again could succeed or the
// server is broken. `status` is not OK.
ExitCode ExitCodeOf(const grpc::Status& status);

// Lines for standard error, each ended. `server` is the address as the user gave it.
std::string FailureText(const grpc::Status& status, absl::string_view server);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_FAILURE_TEXT_H_
