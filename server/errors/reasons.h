// Every reason for which a call fails: one list, used for codes, texts, metrics and tests.
#ifndef HAPMOE_SERVER_ERRORS_REASONS_H_
#define HAPMOE_SERVER_ERRORS_REASONS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// X(enumerator, reason on the wire, canonical code, sentence)
#define HAPMOE_ERROR_REASONS(X)                                                                  \
  X(kRequestInvalid, "REQUEST_INVALID", kInvalidArgument, "The request has faults.")             \
  X(kLayoutInvalid, "LAYOUT_INVALID", kInvalidArgument,                                          \
    "The layout in the job's arguments breaks rules of the engine or does not fit the cluster.") \
  X(kPrecisionUnsupported, "PRECISION_UNSUPPORTED", kInvalidArgument,                            \
    "An accelerator does not support the job's precision.")                                      \
  X(kProfileInvalid, "PROFILE_INVALID", kInvalidArgument, "The profile has faults.")             \
  X(kPageTokenInvalid, "PAGE_TOKEN_INVALID", kInvalidArgument,                                   \
    "The page token was not given by this server.")                                              \
  X(kProfileNotFound, "PROFILE_NOT_FOUND", kNotFound, "There is no such accelerator profile.")   \
  X(kReportNotFound, "REPORT_NOT_FOUND", kNotFound, "There is no such report.")                  \
  X(kPlanNotKnown, "PLAN_NOT_KNOWN", kNotFound, "No plan of this id is known any more.")         \
  X(kProfileBuiltIn, "PROFILE_BUILT_IN", kFailedPrecondition,                                    \
    "The profile was not stored by PutProfile and cannot be deleted.")                           \
  X(kNoPlanFits, "NO_PLAN_FITS", kFailedPrecondition, "No plan fits.")                           \
  X(kNotPermitted, "NOT_PERMITTED", kPermissionDenied,                                           \
    "This client may not change profiles or reports.")                                           \
  X(kQueueFull, "QUEUE_FULL", kResourceExhausted, "Too many calls wait already.")                \
  X(kSearchTooLarge, "SEARCH_TOO_LARGE", kResourceExhausted,                                     \
    "The search needs more memory than it may have.")                                            \
  X(kDeadlinePassed, "DEADLINE_PASSED", kDeadlineExceeded, "No plan was found in time.")         \
  X(kCallCancelled, "CALL_CANCELLED", kCancelled, "The caller cancelled.")                       \
  X(kDraining, "DRAINING", kUnavailable, "The server is shutting down.")                         \
  X(kStorageFailed, "STORAGE_FAILED", kUnavailable, "The server's storage failed.")              \
  X(kInternalFault, "INTERNAL_FAULT", kInternal, "The server failed; please report this.")

namespace hapmoe::server {

enum class Reason {
#define HAPMOE_REASON_ENUMERATOR(name, wire, code, text) name,
  HAPMOE_ERROR_REASONS(HAPMOE_REASON_ENUMERATOR)
#undef HAPMOE_REASON_ENUMERATOR
};

struct ReasonFacts {
  Reason reason;
  absl::string_view wire;  // Reason in ErrorInfo.
  absl::StatusCode code;
  absl::string_view text;
};

inline constexpr ReasonFacts kReasons[] = {
#define HAPMOE_REASON_FACTS(name, wire, code, text) \
  {Reason::name, wire, absl::StatusCode::code, text},
    HAPMOE_ERROR_REASONS(HAPMOE_REASON_FACTS)
#undef HAPMOE_REASON_FACTS
};

constexpr const ReasonFacts& Facts(Reason reason) { return kReasons[static_cast<int>(reason)]; }

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_ERRORS_REASONS_H_
