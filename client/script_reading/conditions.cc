// test, [ and [[.
#include <fcntl.h>
#include <regex.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/expander.h"
#include "client/script_reading/file_patterns.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/pattern.h"
#include "client/script_stubs.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kUnary = "nzfdeshLrwxvtpbcSgukOGN";
constexpr absl::string_view kBinary[] = {"=",   "==",  "!=",  "-eq", "-ne", "-lt",
                                         "-le", "-gt", "-ge", "<",   ">"};

bool IsUnary(absl::string_view word) {
  return word.size() == 2 && word[0] == '-' && absl::StrContains(kUnary, word[1]);
}

bool IsBinary(absl::string_view word) {
  return std::find(std::begin(kBinary), std::end(kBinary), word) != std::end(kBinary);
}

// The text of a word that was written without quotes and expansions.
std::string OperatorOf(const Word& word) {
  const bool plain =
      word.parts.size() == 1 && word.parts[0].kind == Part::Kind::kText && !word.parts[0].quoted;
  return plain ? word.parts[0].text : "";
}

bool Compare(absl::string_view operation, int64_t left, int64_t right) {
  if (operation == "-eq") return left == right;
  if (operation == "-ne") return left != right;
  if (operation == "-lt") return left < right;
  if (operation == "-le") return left <= right;
  if (operation == "-gt") return left > right;
  return left >= right;
}

}  // namespace

std::optional<bool> Interpreter::UnaryTest(Shell& shell, const std::string& operation,
                                           const std::string& word, int& unknown) {
  const char what = operation[1];
  if (what == 'n' || what == 'z') {
    const std::optional<bool> empty = IsEmpty(word);
    if (!empty.has_value()) {
      unknown = FirstUnknown(word);
      return std::nullopt;
    }
    return *empty == (what == 'z');
  }
  if (HasUnknown(word)) {
    unknown = FirstUnknown(word);
    return std::nullopt;
  }
  if (what == 'v') {
    if (absl::StrContains(word, '[')) Fail("-v of an element is not read");
    const Variable* variable = shell.Find(word);
    return variable != nullptr && variable->is_set &&
           (!variable->is_array || variable->items.count(0) > 0);
  }
  if (what == 't') return false;  // Nothing is a terminal.
  const std::string path = Absolute(shell, word);
  if (word.empty()) return false;
  if (made_.count(path) > 0 || written_.count(path) > 0) {
    const bool directory = made_.count(path) > 0;
    if (what == 'd' || what == 'f' || what == 'e') {
      return what == 'e' || (what == 'd') == directory;
    }
  }
  if (Touched(path)) {
    unknown = NewUnknown(absl::StrCat(word, ", which the script itself changes"));
    return std::nullopt;
  }
  // A launcher that is called by its path is taken to be there.
  const std::string name = fs::path(path).filename();
  const bool launcher =
      !files_.IsShown(path) &&
      std::find(SandboxStubs().begin(), SandboxStubs().end(), name) != SandboxStubs().end();
  if (launcher || IsAssumed(path) || IsOfSystem(path) || !absl::StrContains("fderxsL", what)) {
    unknown = NewUnknown(absl::StrCat("the file ", word));
    return std::nullopt;
  }
  std::error_code error;
  if (path == "/tmp") return what != 'f' && what != 'L';
  if (!files_.IsShown(path)) {
    Note(absl::StrCat(word, " is taken not to be there"));
    return false;
  }
  const fs::file_status status =
      what == 'L' ? fs::symlink_status(path, error) : fs::status(path, error);
  if (!fs::exists(status)) return false;
  switch (what) {
    case 'f':
      return fs::is_regular_file(status);
    case 'd':
      return fs::is_directory(status);
    case 'L':
      return fs::is_symlink(status);
    case 's':
      return fs::is_directory(status) || fs::file_size(path, error) > 0;
    case 'x':
      return access(path.c_str(), X_OK) == 0;
    default:
      return true;
  }
}

std::optional<bool> Interpreter::BinaryTest(Shell& shell, const std::string& left,
                                            const std::string& operation, const std::string& right,
                                            int& unknown) {
  (void)shell;
  if (HasUnknown(left) || HasUnknown(right)) {
    unknown = FirstUnknown(HasUnknown(left) ? left : right);
    return std::nullopt;
  }
  if (operation == "=" || operation == "==") return left == right;
  if (operation == "!=") return left != right;
  if (operation == "<") return left < right;
  if (operation == ">") return left > right;
  int64_t a = 0;
  int64_t b = 0;
  // `test` takes numbers alone. An error counts as false.
  if (!absl::SimpleAtoi(left, &a) || !absl::SimpleAtoi(right, &b)) return std::nullopt;
  return Compare(operation, a, b);
}

// Nothing, without an unknown, is an error of `test`, of status 2.
std::optional<bool> Interpreter::Test(Shell& shell, const std::vector<std::string>& words,
                                      int& unknown) {
  const size_t n = words.size();
  if (!Charge(n * 10)) return std::nullopt;
  if (n == 0) return false;
  if (n == 1) return UnaryTest(shell, "-n", words[0], unknown);
  const auto negate = [](std::optional<bool> value) {
    return value.has_value() ? std::optional<bool>(!*value) : value;
  };
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (n == 2) {
    if (words[0] == "!") return negate(Test(shell, rest, unknown));
    if (IsUnary(words[0])) return UnaryTest(shell, words[0], words[1], unknown);
    return std::nullopt;
  }
  if (n == 3 && IsBinary(words[1])) return BinaryTest(shell, words[0], words[1], words[2], unknown);
  if (words[0] == "!" && n <= 4) return negate(Test(shell, rest, unknown));
  if (words[0] == "(" && words[n - 1] == ")" && n <= 4) {
    return Test(shell, {words.begin() + 1, words.end() - 1}, unknown);
  }
  // -o binds less than -a.
  for (const char* operation : {"-o", "-a"}) {
    for (size_t i = 1; i + 1 < n; ++i) {
      if (words[i] != operation) continue;
      if (words[0] == "(") {
        Fail("a test of a form that is not read");
        return std::nullopt;
      }
      int left_unknown = -1;
      int right_unknown = -1;
      const auto left = Test(shell, {words.begin(), words.begin() + i}, left_unknown);
      const auto right = Test(shell, {words.begin() + i + 1, words.end()}, right_unknown);
      const bool decides = operation[1] == 'o';
      if (left == decides || right == decides) return decides;
      unknown = left_unknown >= 0 ? left_unknown : right_unknown;
      if (!left.has_value() || !right.has_value()) return std::nullopt;
      return !decides;
    }
  }
  if (words[0] == "!") return negate(Test(shell, rest, unknown));
  return std::nullopt;
}

// Words of [[ ]], from `at` on. `least` is 0 for ||, 1 for &&, 2 for what binds more.
std::optional<bool> Interpreter::BracketTest(Shell& shell, const std::vector<Word>& words,
                                             size_t& at, int least, int& unknown) {
  const auto upcoming = [&](size_t ahead = 0) {
    return at + ahead < words.size() ? OperatorOf(words[at + ahead]) : std::string();
  };
  if (++depth_ > 400) Fail("nested too deep");
  if (failed()) return std::nullopt;
  std::optional<bool> value;
  if (least < 2) {
    value = BracketTest(shell, words, at, least + 1, unknown);
    const std::string operation = least == 0 ? "||" : "&&";
    while (!failed() && upcoming() == operation) {
      ++at;
      const bool decides = least == 0;
      if (value == decides) {
        // What follows is not looked at, and may not be: ${x:=y} assigns.
        int open = 0;
        for (; at < words.size(); ++at) {
          const std::string word = upcoming();
          if (open == 0 && (word == ")" || word == "||" || (least == 0 && word == operation) ||
                            (least == 1 && word == operation))) {
            break;
          }
          open += word == "(" ? 1 : word == ")" ? -1 : 0;
        }
        continue;
      }
      int right_unknown = -1;
      const std::optional<bool> right = BracketTest(shell, words, at, least + 1, right_unknown);
      if (right == decides && right_unknown < 0) {
        value = decides;
        unknown = -1;
      } else if (unknown < 0) {
        value = right;
        unknown = right_unknown;
      }
    }
    --depth_;
    return value;
  }
  const std::string word = upcoming();
  if (at >= words.size()) {
    Fail("a condition of a form that is not read");
  } else if (word == "!") {
    ++at;
    value = BracketTest(shell, words, at, 2, unknown);
    if (value.has_value()) value = !*value;
  } else if (word == "(") {
    ++at;
    value = BracketTest(shell, words, at, 0, unknown);
    if (upcoming() != ")") Fail("a condition of a form that is not read");
    ++at;
  } else if (IsUnary(word) && at + 1 < words.size()) {
    value = UnaryTest(shell, word, Expander(*this, shell).Text(words[at + 1]), unknown);
    at += 2;
  } else if (IsBinary(upcoming(1)) || upcoming(1) == "=~") {
    const std::string operation = upcoming(1);
    if (at + 2 >= words.size()) {
      Fail("a condition of a form that is not read");
      --depth_;
      return value;
    }
    const std::string left = Expander(*this, shell).Text(words[at]);
    const bool pattern = operation == "==" || operation == "=" || operation == "!=";
    const std::string right = pattern ? Expander(*this, shell).Pattern(words[at + 2])
                                      : Expander(*this, shell).Text(words[at + 2]);
    const Word& right_word = words[at + 2];
    at += 3;
    if (HasUnknown(left) || HasUnknown(right)) {
      unknown = FirstUnknown(HasUnknown(left) ? left : right);
    } else if (operation == "=~") {
      value = RegularTest(shell, left, right, right_word);
    } else if (pattern) {
      Charge(left.size() * (right.size() + 1));
      if (!failed()) value = MatchesPattern(right, left) == (operation != "!=");
    } else if (operation[0] == '-') {
      const std::optional<int64_t> a = Arithmetic(shell, left, line_, unknown);
      const std::optional<int64_t> b = Arithmetic(shell, right, line_, unknown);
      if (a.has_value() && b.has_value()) value = Compare(operation, *a, *b);
    } else {
      value = BinaryTest(shell, left, operation, right, unknown);
    }
  } else {
    value = UnaryTest(shell, "-n", Expander(*this, shell).Text(words[at]), unknown);
    ++at;
  }
  --depth_;
  return value;
}

// bash takes its regular expressions from the C library, as here.
std::optional<bool> Interpreter::RegularTest(Shell& shell, const std::string& text,
                                             const std::string& expression, const Word& word) {
  const bool quoted = std::any_of(word.parts.begin(), word.parts.end(),
                                  [](const Part& part) { return part.quoted; });
  // Repetitions of repetitions take the library time and memory without bounds.
  if (quoted || expression.size() > 200 || text.size() > 1000 ||
      std::count(expression.begin(), expression.end(), '{') > 1 ||
      std::count(expression.begin(), expression.end(), '\\') > 4 ||
      std::count(expression.begin(), expression.end(), '(') > 4) {
    Fail("a regular expression of a form that is not read");
    return std::nullopt;
  }
  Charge(100'000);
  regex_t regex;
  if (regcomp(&regex, expression.c_str(), REG_EXTENDED) != 0) {
    Fail("a regular expression that is none");
    return std::nullopt;
  }
  regmatch_t matches[8] = {};
  const bool found = regexec(&regex, text.c_str(), 8, matches, 0) == 0;
  regfree(&regex);
  Variable& variable = shell.variables["BASH_REMATCH"];
  variable = {};
  variable.is_set = variable.is_array = true;
  for (size_t i = 0; found && i < 8; ++i) {
    if (matches[i].rm_so < 0) continue;
    variable.items[static_cast<int64_t>(i)] =
        text.substr(matches[i].rm_so, matches[i].rm_eo - matches[i].rm_so);
  }
  return found;
}

}  // namespace hapmoe::client::shell
