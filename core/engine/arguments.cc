#include "core/engine/arguments.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/engine/layer_pattern.h"

namespace hapmoe::engine {
namespace {

constexpr size_t kMaxFaults = 100;     // A hostile list must not be answered with a longer one.
constexpr size_t kMaxSuggestions = 8;  // Looking for a nearby name costs a scan of all options.

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Blanks around are dropped, as are underscores between digits. False if an underscore is
// elsewhere.
bool PlainNumber(absl::string_view text, std::string* plain) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty() || text.size() > 400) return false;
  plain->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain->push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !IsDigit(text[i - 1]) || !IsDigit(text[i + 1])) {
      return false;
    }
  }
  return true;
}

// "-5", "-.5" and "-1.5", which argparse takes for values; "-1e5" it takes for an option.
bool IsNegativeNumber(absl::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  size_t i = 1;
  while (i < text.size() && IsDigit(text[i])) ++i;
  if (i == text.size()) return true;
  if (text[i] != '.' || i + 1 == text.size()) return false;
  for (++i; i < text.size(); ++i) {
    if (!IsDigit(text[i])) return false;
  }
  return true;
}

// True if argparse reads the text as an option, known or not.
bool LooksLikeOption(absl::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  if (FindMegatronOption(text) != nullptr) return true;
  const size_t equals = text.find('=');
  if (equals != absl::string_view::npos && FindMegatronOption(text.substr(0, equals)) != nullptr) {
    return true;
  }
  if (IsNegativeNumber(text)) return false;
  return text.find(' ') == absl::string_view::npos;
}

bool IsIntTuple(absl::string_view text) {
  while (!text.empty() && (text.front() == '(' || text.front() == ')')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == '(' || text.back() == ')')) text.remove_suffix(1);
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t ignored;
    if (!ParsePythonInt(part, &ignored)) return false;
  }
  return true;
}

// True if the option's type takes the text.
bool HasType(ValueType type, absl::string_view text) {
  int64_t integer;
  double number;
  switch (type) {
    case ValueType::kBool:
    case ValueType::kString:
      return true;
    case ValueType::kInt:
      return ParsePythonInt(text, &integer);
    case ValueType::kFloat:
      return ParsePythonFloat(text, &number);
    case ValueType::kLayerPattern:
      if (text.find('[') == absl::string_view::npos) return ParsePythonInt(text, &integer);
      return EvaluateLayerPattern(text).has_value();
    case ValueType::kIntTuple:
      return IsIntTuple(text);
  }
  return false;
}

absl::string_view TypeName(ValueType type) {
  switch (type) {
    case ValueType::kInt:
      return "an integer";
    case ValueType::kFloat:
      return "a number";
    case ValueType::kLayerPattern:
      return "an integer or a list expression such as ([0]*3+[1]*58)";
    case ValueType::kIntTuple:
      return "integers separated by commas";
    default:
      return "text";
  }
}

// Choices are compared after conversion: 02 is a choice where 2 is.
bool IsChoice(const MegatronOption& option, absl::string_view text) {
  for (absl::string_view choice : absl::StrSplit(option.choices, ' ')) {
    if (choice == text) return true;
    int64_t left, right;
    if (option.type == ValueType::kInt && ParsePythonInt(choice, &left) &&
        ParsePythonInt(text, &right) && left == right) {
      return true;
    }
  }
  return false;
}

// Reads one argument list.
class Reader {
 public:
  Reader(absl::Span<const std::string> argv, Violations& violations)
      : argv_(argv), violations_(violations) {}

  void Run(std::vector<Argument>& arguments) {
    if (!WithinLimits()) return;
    while (at_ < argv_.size() && faults_ < kMaxFaults) {
      const std::string& text = argv_[at_];
      if (text == "--") {
        Fault("stray_argument", "--", "\"--\" ends the options, and nothing may follow them.");
        return;
      }
      if (!LooksLikeOption(text)) {
        Fault("stray_argument", Quoted(text),
              absl::StrCat("The value ", Quoted(text), " belongs to no option."));
        ++at_;
        continue;
      }
      if (std::optional<Argument> argument = ReadOption(text)) {
        arguments.push_back(*std::move(argument));
      }
    }
  }

 private:
  void Fault(absl::string_view rule, std::string field, std::string message) {
    ++faults_;
    violations_.push_back({std::string(rule), std::move(field), std::move(message)});
  }

  bool WithinLimits() {
    if (argv_.size() > Arguments::kMaxArguments) {
      Fault("too_many_arguments", "",
            absl::StrCat("There are ", argv_.size(), " arguments; at most ",
                         Arguments::kMaxArguments, " are read."));
      return false;
    }
    for (const std::string& text : argv_) {
      if (text.size() <= Arguments::kMaxValueBytes) continue;
      Fault("argument_too_long", Quoted(text),
            absl::StrCat("An argument has ", text.size(), " bytes; at most ",
                         Arguments::kMaxValueBytes, " are read."));
      return false;
    }
    return true;
  }

  std::optional<Argument> ReadOption(const std::string& text) {
    ++at_;
    Argument argument;
    argument.option = FindMegatronOption(text);
    argument.flag = text;
    std::optional<std::string> attached;
    if (argument.option == nullptr) {
      const size_t equals = text.find('=');
      argument.flag = text.substr(0, equals);
      argument.option = FindMegatronOption(argument.flag);
      if (equals != std::string::npos) attached = text.substr(equals + 1);
    }
    if (argument.option == nullptr) {
      Unknown(argument.flag);
      return std::nullopt;
    }
    if (argument.option->dest == "help") {
      Fault("help_requested", argument.flag, "The job only asks for help; it trains nothing.");
      return std::nullopt;
    }
    if (!TakeValues(argument, attached) || !CheckValues(argument)) return std::nullopt;
    return argument;
  }

  bool ValueFollows() const {
    return at_ < argv_.size() && argv_[at_] != "--" && !LooksLikeOption(argv_[at_]);
  }

  // Values of an option at fault: told with it, not again as strays.
  void PassOverValues() {
    while (ValueFollows()) ++at_;
  }

  void Unknown(const std::string& flag) {
    PassOverValues();
    std::string message = absl::StrCat("Megatron-LM has no option ", Quoted(flag));
    if (IsRemovedMegatronOption(flag)) {
      absl::StrAppend(&message, "; older versions had it, and it was removed");
    } else if (++suggestions_ <= kMaxSuggestions) {
      const absl::string_view nearest = NearestMegatronOption(flag);
      if (!nearest.empty()) absl::StrAppend(&message, "; the nearest is ", nearest);
    }
    absl::StrAppend(&message, ".");
    Fault("unknown_option", Quoted(flag), std::move(message));
  }

  bool TakeValues(Argument& argument, const std::optional<std::string>& attached) {
    const Arity arity = argument.option->arity;
    size_t least = 0, most = 0;
    switch (arity) {
      case Arity::kNone:
        break;
      case Arity::kOne:
        least = most = 1;
        break;
      case Arity::kThree:
        least = most = 3;
        break;
      case Arity::kOneOrMore:
        least = 1;
        [[fallthrough]];
      case Arity::kZeroOrMore:
        most = std::numeric_limits<size_t>::max();
        break;
    }
    if (attached.has_value()) {
      if (arity == Arity::kNone) {
        Fault("unexpected_value", argument.flag,
              absl::StrCat(argument.flag, " takes no value, but ", Quoted(*attached),
                           " is attached to it."));
        return false;
      }
      argument.values.push_back(*attached);
      most = 1;
    }
    while (argument.values.size() < most && ValueFollows()) {
      argument.values.push_back(argv_[at_++]);
    }
    if (argument.values.size() >= least) return true;
    const absl::string_view wanted = arity == Arity::kThree       ? "three values"
                                     : arity == Arity::kOneOrMore ? "at least one value"
                                                                  : "a value";
    std::string message =
        absl::StrCat(argument.flag, " needs ", wanted, ", but ", argument.values.size());
    double number;
    if (at_ == argv_.size()) {
      absl::StrAppend(&message, " follow it.");
    } else if (LooksLikeOption(argv_[at_]) && ParsePythonFloat(argv_[at_], &number)) {
      // "-1e-5" looks like an option to argparse. Passed over, so that it is told once.
      absl::StrAppend(&message, " stand before ", Quoted(argv_[at_]),
                      ", which is read as an option; ", "write ", argument.flag, "=",
                      Quoted(argv_[at_]), ".");
      ++at_;
    } else {
      absl::StrAppend(&message, " stand before ", Quoted(argv_[at_]), ".");
    }
    Fault("missing_value", argument.flag, std::move(message));
    PassOverValues();
    return false;
  }

  bool CheckValues(const Argument& argument) {
    const MegatronOption& option = *argument.option;
    for (const std::string& value : argument.values) {
      if (!HasType(option.type, value)) {
        Fault("wrong_type", argument.flag,
              absl::StrCat(argument.flag, " takes ", TypeName(option.type), ", but is given ",
                           Quoted(value), "."));
        return false;
      }
      if (!option.choices.empty() && !IsChoice(option, value)) {
        Fault("outside_choices", argument.flag,
              absl::StrCat(argument.flag, " is ", Quoted(value), ", which is none of ",
                           absl::StrJoin(absl::StrSplit(option.choices, ' '), ", "), "."));
        return false;
      }
    }
    return true;
  }

  absl::Span<const std::string> argv_;
  Violations& violations_;
  size_t at_ = 0;
  size_t faults_ = 0;
  size_t suggestions_ = 0;
};

}  // namespace

Arguments Arguments::Parse(absl::Span<const std::string> argv, Violations& violations) {
  Arguments result;
  Reader(argv, violations).Run(result.arguments_);
  for (size_t i = 0; i < result.arguments_.size(); ++i) {
    result.last_[result.arguments_[i].option->dest] = i;
  }
  return result;
}

const Argument* Arguments::Find(absl::string_view dest) const {
  const auto found = last_.find(dest);
  return found == last_.end() ? nullptr : &arguments_[found->second];
}

bool ParsePythonInt(absl::string_view text, int64_t* value) {
  std::string plain;
  if (!PlainNumber(text, &plain)) return false;
  const size_t digits = plain[0] == '-' || plain[0] == '+' ? 1 : 0;
  if (digits == plain.size()) return false;
  for (size_t i = digits; i < plain.size(); ++i) {
    if (!IsDigit(plain[i])) return false;
  }
  if (absl::SimpleAtoi(plain, value)) return true;
  // Python's integers have no bound; every use of ours has one far below these.
  *value =
      plain[0] == '-' ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  return true;
}

bool ParsePythonFloat(absl::string_view text, double* value) {
  std::string plain;
  if (!PlainNumber(text, &plain)) return false;
  for (char c : plain) {
    if (c == 'x' || c == 'X' || c == '(') return false;  // Hexadecimal and nan(...): not Python's.
  }
  return absl::SimpleAtod(plain, value);
}

std::string Quoted(absl::string_view text) {
  constexpr size_t kLongest = 80;
  std::string quoted;
  for (char c : text.substr(0, kLongest)) quoted.push_back(absl::ascii_isprint(c) ? c : '?');
  if (text.size() > kLongest) quoted.append("...");
  return quoted;
}

}  // namespace hapmoe::engine
