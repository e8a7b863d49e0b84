#include "client/script_reading/arithmetic.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {
namespace {

constexpr int kMaxDepth = 128;

struct Operator {
  const char* text;
  int precedence;
};

// Longer ones before those they start with.
constexpr Operator kOperators[] = {
    {"||", 1}, {"&&", 2}, {"**", 11}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7},
    {"==", 6}, {"!=", 6}, {"|", 3},   {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},
    {"+", 9},  {"-", 9},  {"*", 10},  {"/", 10}, {"%", 10},
};
constexpr const char* kAssignments[] = {
    "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "<<=", ">>=", "^="};

class Evaluator {
 public:
  Evaluator(absl::string_view text, const ArithmeticVariables& variables, int depth)
      : text_(text), variables_(variables), depth_(depth) {}

  absl::StatusOr<int64_t> Run() {
    Skip();
    if (at_ == text_.size()) return 0;
    const int64_t value = Comma();
    Skip();
    if (at_ < text_.size()) Fail();
    if (!status_.ok()) return status_;
    return value;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Sees(absl::string_view what) {
    Skip();
    return absl::StartsWith(text_.substr(at_), what);
  }
  bool TakeIf(absl::string_view what) {
    if (!Sees(what)) return false;
    at_ += what.size();
    return true;
  }
  void Fail(absl::string_view why = "arithmetic of a form that is not read") {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(why, ": ", text_));
    at_ = text_.size();
  }

  int64_t Comma() {
    int64_t value = Choice();
    while (TakeIf(",")) value = Choice();
    return value;
  }

  int64_t Choice() {
    if (++depth_ > kMaxDepth) Fail("arithmetic nested too deep");
    int64_t value = Binary(1);
    if (TakeIf("?")) {
      // Only one side may assign.
      const bool outer = std::exchange(skipping_, skipping_ || value == 0);
      const int64_t yes = Choice();
      if (!TakeIf(":")) Fail();
      skipping_ = outer || value != 0;
      const int64_t no = Choice();
      skipping_ = outer;
      value = value != 0 ? yes : no;
    }
    --depth_;
    return value;
  }

  int64_t Binary(int least) {
    if (++depth_ > kMaxDepth) Fail("arithmetic nested too deep");
    const int64_t value = BinaryOf(least);
    --depth_;
    return value;
  }

  int64_t BinaryOf(int least) {
    int64_t left = Unary();
    while (status_.ok()) {
      Skip();
      const Operator* found = nullptr;
      for (const Operator& candidate : kOperators) {
        if (Sees(candidate.text)) {
          found = &candidate;
          break;
        }
      }
      if (found == nullptr || found->precedence < least) return left;
      at_ += absl::string_view(found->text).size();
      if (Sees("=") && !Sees("==")) {
        Fail();
        return 0;
      }
      const absl::string_view text = found->text;
      const bool outer = skipping_;
      if ((text == "&&" && left == 0) || (text == "||" && left != 0)) skipping_ = true;
      const int64_t right = Binary(found->precedence + (text == "**" ? 0 : 1));
      skipping_ = outer;
      left = Apply(text, left, right);
    }
    return left;
  }

  int64_t Apply(absl::string_view op, int64_t left, int64_t right) {
    const auto l = static_cast<uint64_t>(left);
    const auto r = static_cast<uint64_t>(right);
    if (op == "+") return static_cast<int64_t>(l + r);
    if (op == "-") return static_cast<int64_t>(l - r);
    if (op == "*") return static_cast<int64_t>(l * r);
    if (op == "/" || op == "%") {
      if (right == 0 || (right == -1 && left == std::numeric_limits<int64_t>::min())) {
        if (!skipping_) Fail("division by zero");
        return 0;
      }
      return op == "/" ? left / right : left % right;
    }
    if (op == "**") {
      if (right < 0) Fail("a negative exponent");
      uint64_t power = 1;
      uint64_t base = l;
      for (uint64_t n = r; n > 0 && right > 0; n >>= 1) {
        if ((n & 1) != 0) power *= base;
        base *= base;
      }
      return static_cast<int64_t>(power);
    }
    if (op == "<<") return static_cast<int64_t>(l << (r & 63));
    if (op == ">>") return left >> (r & 63);
    if (op == "<") return left < right;
    if (op == ">") return left > right;
    if (op == "<=") return left <= right;
    if (op == ">=") return left >= right;
    if (op == "==") return left == right;
    if (op == "!=") return left != right;
    if (op == "&") return left & right;
    if (op == "|") return left | right;
    if (op == "^") return left ^ right;
    if (op == "&&") return left != 0 && right != 0;
    return left != 0 || right != 0;
  }

  int64_t Unary() {
    if (++depth_ > kMaxDepth) Fail("arithmetic nested too deep");
    int64_t value = 0;
    if (TakeIf("++") || TakeIf("--")) {
      const int64_t step = text_[at_ - 1] == '+' ? 1 : -1;
      value = Variable(step, true);
    } else if (TakeIf("-")) {
      value = static_cast<int64_t>(-static_cast<uint64_t>(Unary()));
    } else if (TakeIf("+")) {
      value = Unary();
    } else if (Sees("!") && !Sees("!=")) {
      TakeIf("!");
      value = Unary() == 0;
    } else if (TakeIf("~")) {
      value = ~Unary();
    } else if (TakeIf("(")) {
      value = Comma();
      if (!TakeIf(")")) Fail();
    } else if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) {
      value = Number();
    } else if (at_ < text_.size() && IsNameStart(text_[at_])) {
      value = Variable(0, false);
    } else {
      Fail();
    }
    --depth_;
    return value;
  }

  int64_t Number() {
    const size_t start = at_;
    while (at_ < text_.size() && (IsNameCharacter(text_[at_]) || text_[at_] == '#')) ++at_;
    absl::string_view digits = text_.substr(start, at_ - start);
    uint64_t base = 10;
    if (const size_t hash = digits.find('#'); hash != absl::string_view::npos) {
      base = 0;
      for (const char c : digits.substr(0, hash)) {
        if (absl::ascii_isdigit(c) && base < 100) base = base * 10 + (c - '0');
      }
      digits.remove_prefix(hash + 1);
    } else if (absl::StartsWithIgnoreCase(digits, "0x")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    uint64_t value = 0;
    for (const char c : digits) {
      const int digit = absl::ascii_isdigit(c)   ? c - '0'
                        : absl::ascii_isalpha(c) ? absl::ascii_tolower(c) - 'a' + 10
                                                 : 99;
      if (base < 2 || base > 36 || digit >= static_cast<int>(base)) {
        Fail("not a number");
        return 0;
      }
      value = value * base + digit;
    }
    return static_cast<int64_t>(value);
  }

  int64_t Variable(int64_t step, bool before) {
    Skip();
    const size_t start = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) ++at_;
    const std::string name(text_.substr(start, at_ - start));
    absl::string_view index;
    if (at_ < text_.size() && text_[at_] == '[') {
      const size_t end = text_.find(']', at_);
      if (end == absl::string_view::npos) {
        Fail();
        return 0;
      }
      index = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    }
    if (name.empty() || !IsNameStart(name[0])) {
      Fail();
      return 0;
    }
    for (const absl::string_view assignment : kAssignments) {
      if (before || !Sees(assignment) || Sees("==")) continue;
      TakeIf(assignment);
      const int64_t right = Choice();
      const absl::string_view op = assignment.substr(0, assignment.size() - 1);
      const int64_t value = op.empty() ? right : Apply(op, Value(name, index), right);
      if (!skipping_ && status_.ok()) variables_.set(name, index, value);
      return value;
    }
    const int64_t value = Value(name, index);
    int64_t result = value;
    if (!before && (TakeIf("++") || TakeIf("--"))) {
      step = text_[at_ - 1] == '+' ? 1 : -1;
    } else if (before) {
      result = value + step;
    }
    if (step != 0 && !skipping_ && status_.ok()) variables_.set(name, index, value + step);
    return result;
  }

  int64_t Value(const std::string& name, absl::string_view index) {
    if (skipping_) return 0;
    const std::string value = variables_.get(name, index);
    if (depth_ > kMaxDepth) Fail("arithmetic nested too deep");
    if (!status_.ok()) return 0;
    absl::StatusOr<int64_t> number = Evaluator(value, variables_, depth_ + 1).Run();
    if (number.ok()) return *number;
    status_ = number.status();
    at_ = text_.size();
    return 0;
  }

  absl::string_view text_;
  const ArithmeticVariables& variables_;
  int depth_;
  size_t at_ = 0;
  bool skipping_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<int64_t> Evaluate(absl::string_view expression,
                                 const ArithmeticVariables& variables) {
  return Evaluator(expression, variables, 0).Run();
}

}  // namespace hapmoe::client::shell
