#include "core/engine/value_translation.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace hapmoe::engine {

absl::StatusOr<std::string> TranslatedValue(const Argument& argument, ScalarWriter scalar,
                                            absl::string_view separator) {
  const MegatronOption& option = *argument.option;
  if (option.arity == Arity::kNone) {
    return std::string(option.default_value == "True" ? "false" : "true");
  }
  const bool unpacked = option.dest == "cp_comm_type" || option.dest == "moe_aux_loss_coeff" ||
                        option.dest == "moe_router_load_balancing_type";
  if (option.arity == Arity::kOne || (unpacked && argument.values.size() == 1)) {
    return argument.values.empty() ? std::string("null") : scalar(argument, argument.values[0]);
  }
  std::vector<std::string> values;
  values.reserve(argument.values.size());
  for (const std::string& text : argument.values) {
    HAPMOE_ASSIGN_OR_RETURN(std::string value, scalar(argument, text));
    values.push_back(std::move(value));
  }
  return absl::StrCat("[", absl::StrJoin(values, separator), "]");
}

bool IsPlainFloat(const std::string& text) {
  double value = 0;
  return absl::c_all_of(text, [](char c) { return absl::StrContains("0123456789.eE+-", c); }) &&
         ParsePythonFloat(text, &value);
}

}  // namespace hapmoe::engine
