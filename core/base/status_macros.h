// Early return on a failed absl::Status or absl::StatusOr.
#ifndef HAPMOE_CORE_BASE_STATUS_MACROS_H_
#define HAPMOE_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HAPMOE_RETURN_IF_ERROR(expr)                                                       \
  do {                                                                                     \
    if (absl::Status hapmoe_status_ = (expr); !hapmoe_status_.ok()) return hapmoe_status_; \
  } while (false)

#define HAPMOE_CONCAT_INNER_(a, b) a##b
#define HAPMOE_CONCAT_(a, b) HAPMOE_CONCAT_INNER_(a, b)

// HAPMOE_ASSIGN_OR_RETURN(auto x, MakeX());
// NOLINTBEGIN(bugprone-macro-parentheses): lhs may declare a variable.
#define HAPMOE_ASSIGN_OR_RETURN(lhs, expr) \
  HAPMOE_ASSIGN_OR_RETURN_IMPL_(HAPMOE_CONCAT_(hapmoe_or_, __LINE__), lhs, expr)
#define HAPMOE_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // HAPMOE_CORE_BASE_STATUS_MACROS_H_
