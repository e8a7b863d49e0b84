#include "core/engine/option_values.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hapmoe::engine {
namespace {

// The default as text; empty for none.
absl::string_view Default(absl::string_view dest) {
  const MegatronOption* option = FindMegatronOptionByDest(dest);
  return option == nullptr ? absl::string_view() : option->default_value;
}

// True for "--no-x" where the same option is also spelled "--x".
bool IsNegation(const Argument& argument) {
  if (!absl::StartsWith(argument.flag, "--no-")) return false;
  const std::string positive = absl::StrCat("--", argument.flag.substr(5));
  for (absl::string_view flag : absl::StrSplit(argument.option->flags, ' ')) {
    if (flag == positive) return true;
  }
  return false;
}

}  // namespace

bool OptionValues::Flag(absl::string_view dest) const {
  const Argument* argument = arguments_.Find(dest);
  if (argument == nullptr) return Default(dest) == "True";
  return argument->option->default_value != "True" && !IsNegation(*argument);
}

std::string OptionValues::Text(absl::string_view dest) const {
  const Argument* argument = arguments_.Find(dest);
  if (argument == nullptr) return std::string(Default(dest));
  return argument->values.empty() ? std::string() : argument->values.front();
}

std::vector<std::string> OptionValues::List(absl::string_view dest) const {
  const Argument* argument = arguments_.Find(dest);
  if (argument != nullptr) return argument->values;
  if (Default(dest).empty()) return {};
  return absl::StrSplit(Default(dest), ' ');
}

std::optional<int64_t> OptionValues::Int(absl::string_view dest) const {
  int64_t value;
  if (!ParsePythonInt(Text(dest), &value)) return std::nullopt;
  return value;
}

std::optional<double> OptionValues::Float(absl::string_view dest) const {
  double value;
  if (!ParsePythonFloat(Text(dest), &value)) return std::nullopt;
  return value;
}

std::optional<int64_t> OptionValues::IntIn(absl::string_view dest, int64_t least, int64_t most) {
  const std::optional<int64_t> value = Int(dest);
  if (!value.has_value() || (*value >= least && *value <= most)) return value;
  Report("value_out_of_range", dest,
         absl::StrCat(FlagOf(dest), " is ", Quoted(Text(dest)), "; it must be from ", least, " to ",
                      most, "."));
  return std::nullopt;
}

std::optional<double> OptionValues::FloatIn(absl::string_view dest, double least, double most) {
  const std::optional<double> value = Float(dest);
  if (!value.has_value() || (*value >= least && *value <= most)) return value;
  Report("value_out_of_range", dest,
         absl::StrCat(FlagOf(dest), " is ", Quoted(Text(dest)), "; it must be from ", least, " to ",
                      most, "."));
  return std::nullopt;
}

std::optional<int64_t> OptionValues::RequiredIntIn(absl::string_view dest, int64_t least,
                                                   int64_t most) {
  if (!Int(dest).has_value()) {
    Report("missing_option", dest, absl::StrCat(FlagOf(dest), " must be given."));
    return std::nullopt;
  }
  return IntIn(dest, least, most);
}

void OptionValues::Report(absl::string_view rule, absl::string_view dest, std::string message) {
  at_fault_ = true;
  if (violations_ == nullptr) return;
  violations_->push_back({std::string(rule), FlagOf(dest), std::move(message)});
}

std::string FlagOf(absl::string_view dest) {
  const MegatronOption* option = FindMegatronOptionByDest(dest);
  if (option == nullptr) return std::string(dest);
  return std::string(option->flags.substr(0, option->flags.find(' ')));
}

}  // namespace hapmoe::engine
