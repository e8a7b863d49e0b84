// Arithmetic of bash: 64-bit integers, C's operators, variables by their names.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_ARITHMETIC_H_
#define HAPMOE_CLIENT_SCRIPT_READING_ARITHMETIC_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hapmoe::client::shell {

struct ArithmeticVariables {
  // The value, "" where there is none. `index` is empty but for an array's element.
  std::function<std::string(const std::string& name, absl::string_view index)> get;
  std::function<void(const std::string& name, absl::string_view index, int64_t value)> set;
};

// INVALID_ARGUMENT: a form that is not read, or a division by zero. Values that are no numbers are
// expressions themselves, to a limited depth.
absl::StatusOr<int64_t> Evaluate(absl::string_view expression,
                                 const ArithmeticVariables& variables);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_ARITHMETIC_H_
