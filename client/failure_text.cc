#include "client/failure_text.h"

#include <grpcpp/support/error_details.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/text.h"
#include "google/rpc/status.pb.h"

namespace hapmoe::client {
namespace {

constexpr char kSearchTooLarge[] = "SEARCH_TOO_LARGE";
constexpr char kStorageFailed[] = "STORAGE_FAILED";  // Reason of an UNAVAILABLE planner that runs.

std::string Sentence(absl::string_view text) {
  std::string sentence = Printable(text);
  if (!sentence.empty() && sentence.back() != '.') sentence += '.';
  return sentence;
}

bool HasChanges(const FailureDetails& details) {
  return details.changes.alternatives_size() + details.changes.together_size() > 0;
}

// The changes of a list, a line for each, under a line that says what they are for.
std::string ChangesText(const google::protobuf::RepeatedPtrField<v1::SuggestedChange>& changes,
                        absl::string_view one, absl::string_view several) {
  if (changes.empty()) return "";
  std::string text = absl::StrCat(changes.size() == 1 ? one : several, "\n");
  for (const v1::SuggestedChange& change : changes) {
    absl::StrAppend(&text, "  - ", Printable(change.sentence()), "\n");
  }
  return text;
}

// What the status is about, and the server's own words.
std::string Headline(const grpc::Status& status, const FailureDetails& details,
                     absl::string_view server) {
  const std::string all = status.error_message();
  absl::string_view message = all;
  // The list below tells it.
  if (HasChanges(details) && absl::ConsumeSuffix(&message, details.suggestion)) {
    message = absl::StripTrailingAsciiWhitespace(message);
  }
  const std::string said = Sentence(message);
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
      return absl::StrCat("the request was refused: ", said);
    case grpc::StatusCode::NOT_FOUND:
      return absl::StrCat("not found: ", said);
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::StrCat("not permitted: ", said);
    case grpc::StatusCode::FAILED_PRECONDITION:
      return absl::StrCat("this cannot be done as asked: ", said);
    case grpc::StatusCode::UNAVAILABLE:
      if (details.reason == kStorageFailed) {
        return absl::StrCat("the planner at ", server, " could not store this: ", said);
      }
      return absl::StrCat("the planner at ", server,
                          " cannot be reached, or is shutting down: ", said);
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::StrCat("no answer within the deadline: ", said);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (details.reason == kSearchTooLarge) {
        return absl::StrCat("the planner at ", server, " ended the search: ", said);
      }
      return absl::StrCat("the planner at ", server, " has too much to do: ", said);
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::StrCat("the server at ", server, " does not know this call: ", said);
    default:
      return absl::StrCat("the planner at ", server, " failed (status ", status.error_code(),
                          "): ", said);
  }
}

// What to do about a failure, by the reason that the planner gives. Those that say it themselves,
// with what they list, are not here.
constexpr struct {
  absl::string_view reason;
  absl::string_view advice;
} kAdvice[] = {
    {"REQUEST_INVALID", "Correct what is listed and ask again."},
    {"LAYOUT_INVALID",
     "Correct these options, or have a layout chosen: `hapmoe plan` takes the same job."},
    {"PRECISION_UNSUPPORTED",
     "Train in a precision that every pool supports, or leave the pool out."},
    {"PROFILE_INVALID", "Correct what is listed and put the profile again."},
    {"PAGE_TOKEN_INVALID", "List again from the first page."},
    {"PROFILE_NOT_FOUND",
     "`hapmoe profiles list` shows the accelerator types that the planner knows."},
    {"REPORT_NOT_FOUND", "`hapmoe report list` shows the reports that the planner keeps."},
    {"PLAN_NOT_KNOWN", "Report the iteration with its job, its cluster and the plan itself."},
    {"PROFILE_BUILT_IN",
     "Put a profile under the same name instead: it is taken in place of this one."},
    {"NO_PLAN_FITS", "Add nodes, or allow more: degrees, micro-batches, idle accelerators."},
    {"NOT_PERMITTED",
     "Use a certificate of a client that the planner's --writers names, with --tls-cert."},
    {"QUEUE_FULL", "Try again later."},
    {"SEARCH_TOO_LARGE",
     "Allow fewer degrees or micro-batches or no idle accelerators, or have the planner started "
     "with more --max_search_memory."},
    {"DEADLINE_PASSED",
     "Give the search more time: a larger --time-budget where one was given, or --deadline."},
    {"CALL_CANCELLED", "Ask again if the answer is still wanted."},
    {"DRAINING", "Ask again in a moment, when another planner or its next start answers."},
    {"STORAGE_FAILED",
     "Its log says what its disk or its database lacks. Try again once that is mended."},
    {"INTERNAL_FAULT", "Please report this, with the planner's version and its log."},
};

// What the user may do about it.
std::string Advice(const grpc::Status& status, const FailureDetails& details) {
  if (details.retry_delay) {
    return absl::StrCat("Try again in ", absl::FormatDuration(*details.retry_delay), ".");
  }
  if (HasChanges(details)) return "";  // They say it.
  for (const auto& [reason, advice] : kAdvice) {
    if (details.reason == reason) return std::string(advice);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return "Is it running? Start one with `hapmoed --listen=127.0.0.1:50051`, or name another "
             "with --server or HAPMOE_SERVER.";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "Give the search more time: a larger --time-budget where one was given, or "
             "--deadline.";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "Try again later.";
    case grpc::StatusCode::NOT_FOUND:
      if (details.resources.empty()) return "";  // Not a profile.
      return "`hapmoe profiles list` shows the accelerator types that the planner knows.";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "Is it a planner of this version? `hapmoe version` prints this one's.";
    default:
      return "";
  }
}

}  // namespace

FailureDetails ReadDetails(const grpc::Status& status) {
  FailureDetails details;
  google::rpc::Status rich;
  if (!grpc::ExtractErrorDetails(status, &rich).ok()) return details;
  for (const google::protobuf::Any& any : rich.details()) {
    if (google::rpc::BadRequest bad; any.UnpackTo(&bad)) {
      details.fields.insert(details.fields.end(), bad.field_violations().begin(),
                            bad.field_violations().end());
    } else if (google::rpc::PreconditionFailure failure; any.UnpackTo(&failure)) {
      details.conditions.insert(details.conditions.end(), failure.violations().begin(),
                                failure.violations().end());
    } else if (google::rpc::ResourceInfo resource; any.UnpackTo(&resource)) {
      details.resources.push_back(resource);
    } else if (v1::SuggestedChanges changes; any.UnpackTo(&changes)) {
      details.changes.MergeFrom(changes);
    } else if (google::rpc::ErrorInfo info; any.UnpackTo(&info)) {
      details.reason = info.reason();
      const auto suggestion = info.metadata().find("suggestion");
      if (suggestion != info.metadata().end()) details.suggestion = suggestion->second;
    } else if (google::rpc::RetryInfo retry; any.UnpackTo(&retry)) {
      details.retry_delay = absl::Seconds(retry.retry_delay().seconds()) +
                            absl::Nanoseconds(retry.retry_delay().nanos());
    }
  }
  return details;
}

ExitCode ExitCodeOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return kRefused;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      // However quiet the planner is.
      return ReadDetails(status).reason == kSearchTooLarge ? kRefused : kServerFailed;
    default:
      return kServerFailed;
  }
}

std::string FailureText(const grpc::Status& status, absl::string_view server) {
  const FailureDetails details = ReadDetails(status);
  const std::string headline = Headline(status, details, server);
  std::string text = absl::StrCat("hapmoe: ", headline, "\n");
  for (const auto& violation : details.fields) {
    absl::StrAppend(&text, "  ", Printable(violation.field()), ": ",
                    Printable(violation.description()));
    if (!violation.reason().empty()) {
      absl::StrAppend(&text, " [", Printable(violation.reason()), "]");
    }
    absl::StrAppend(&text, "\n");
  }
  for (const auto& violation : details.conditions) {
    const std::string subject = Printable(violation.subject());
    const std::string description = Printable(violation.description());
    if (!description.empty() && absl::StrContains(headline, description)) {
      // Said already; what is left is where, and by which rule.
      absl::StrAppend(&text, "  what binds: ", Printable(violation.type()),
                      subject.empty() ? "" : ", ", subject, "\n");
      continue;
    }
    absl::StrAppend(&text, "  ", subject, subject.empty() ? "" : ": ", description);
    if (!violation.type().empty()) absl::StrAppend(&text, " [", Printable(violation.type()), "]");
    absl::StrAppend(&text, "\n");
  }
  for (const google::rpc::ResourceInfo& resource : details.resources) {
    absl::StrAppend(&text, "  ", Printable(resource.resource_type()), " ",
                    Printable(resource.resource_name()), ": ", Printable(resource.description()),
                    "\n");
  }
  absl::StrAppend(&text,
                  ChangesText(details.changes.alternatives(),
                              "This would be enough:", "Any one of these would be enough:"),
                  ChangesText(details.changes.together(),
                              "This would be enough:", "All of these together would be enough:"));
  const std::string advice = Advice(status, details);
  if (!advice.empty()) absl::StrAppend(&text, advice, "\n");
  return text;
}

}  // namespace hapmoe::client
