#include "core/engine/layer_pattern.h"

#include <utility>
#include <variant>

namespace hapmoe::engine {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxTextBytes = 1 << 16;
constexpr int64_t kMaxInteger = 1000000;

using List = std::vector<int64_t>;
using Value = std::variant<int64_t, List>;

// Recursive descent; every method returns nothing on a fault.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  std::optional<List> Run() {
    std::optional<Value> value = Sum(0);
    if (!value.has_value() || at_ != text_.size()) return std::nullopt;
    if (!std::holds_alternative<List>(*value)) return std::nullopt;
    return std::get<List>(*std::move(value));
  }

 private:
  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Value> Sum(int depth) {
    std::optional<Value> left = Product(depth);
    while (left.has_value() && Take('+')) {
      std::optional<Value> right = Product(depth);
      if (!right.has_value() || left->index() != right->index()) return std::nullopt;
      if (auto* list = std::get_if<List>(&*left)) {
        const List& more = std::get<List>(*right);
        if (list->size() + more.size() > kMaxPatternLayers) return std::nullopt;
        list->insert(list->end(), more.begin(), more.end());
      } else {
        left = Bounded(std::get<int64_t>(*left) + std::get<int64_t>(*right));
      }
    }
    return left;
  }

  std::optional<Value> Product(int depth) {
    std::optional<Value> left = Factor(depth);
    while (left.has_value() && Take('*')) {
      std::optional<Value> right = Factor(depth);
      if (!right.has_value()) return std::nullopt;
      if (left->index() == 0 && right->index() == 0) {
        left = Bounded(std::get<int64_t>(*left) * std::get<int64_t>(*right));
      } else if (left->index() != right->index()) {
        if (left->index() == 0) std::swap(left, right);
        left = Repeat(std::get<List>(*left), std::get<int64_t>(*right));
      } else {
        return std::nullopt;
      }
    }
    return left;
  }

  std::optional<Value> Factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (Take('(')) {
      std::optional<Value> value = Sum(depth + 1);
      if (!Take(')')) return std::nullopt;
      return value;
    }
    if (Take('[')) return Elements(depth);
    return Integer();
  }

  std::optional<Value> Elements(int depth) {
    List list;
    while (!Take(']')) {
      if (!list.empty() && !Take(',')) return std::nullopt;
      if (!list.empty() && Take(']')) break;  // A comma may follow the last element.
      const std::optional<Value> element = Sum(depth + 1);
      if (!element.has_value() || element->index() != 0) return std::nullopt;
      if (list.size() == kMaxPatternLayers) return std::nullopt;
      list.push_back(std::get<int64_t>(*element));
    }
    return Value(std::move(list));
  }

  std::optional<Value> Integer() {
    const size_t begin = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kMaxInteger) return std::nullopt;
    }
    // Python refuses leading zeros except in zero itself.
    if (at_ == begin || (at_ - begin > 1 && text_[begin] == '0' && value != 0)) return std::nullopt;
    return Value(value);
  }

  static std::optional<Value> Bounded(int64_t value) {
    if (value > kMaxInteger) return std::nullopt;
    return Value(value);
  }

  static std::optional<Value> Repeat(const List& list, int64_t times) {
    if (!list.empty() && times > static_cast<int64_t>(kMaxPatternLayers / list.size())) {
      return std::nullopt;
    }
    List repeated;
    if (!list.empty()) {
      repeated.reserve(list.size() * static_cast<size_t>(times));
      for (int64_t i = 0; i < times; ++i) repeated.insert(repeated.end(), list.begin(), list.end());
    }
    return Value(std::move(repeated));
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<int64_t>> EvaluateLayerPattern(absl::string_view text) {
  if (text.size() > kMaxTextBytes) return std::nullopt;
  return Parser(text).Run();
}

}  // namespace hapmoe::engine
