// List expressions over layers, as Megatron-LM's --moe-layer-freq takes them: "([0]*3+[1]*58)".
#ifndef HAPMOE_CORE_ENGINE_LAYER_PATTERN_H_
#define HAPMOE_CORE_ENGINE_LAYER_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace hapmoe::engine {

// Longer lists and deeper expressions are refused before they are built.
inline constexpr size_t kMaxPatternLayers = 10000;

// The value of an expression of integers, lists, parentheses, + and *, with Python's meaning:
// lists join with + and repeat with an integer and *. Nothing if the text is no such expression,
// its value is no flat list of integers, or a limit is passed. Time and memory are bounded by the
// length of the text times kMaxPatternLayers.
std::optional<std::vector<int64_t>> EvaluateLayerPattern(absl::string_view text);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_LAYER_PATTERN_H_
