// Every command-line option of Megatron-LM, as data: arity, type, default and choices.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::engine {

// How many values follow an option.
enum class Arity { kNone, kOne, kThree, kZeroOrMore, kOneOrMore };

enum class ValueType { kBool, kInt, kFloat, kString };

// One option. All text is static.
struct MegatronOption {
  absl::string_view flags;  // All spellings, separated by a space.
  absl::string_view dest;   // Attribute that it sets.
  Arity arity;
  ValueType type;
  absl::string_view default_value;  // As printed; empty for None.
  absl::string_view choices;        // Separated by a space; empty for any.
};

// The options of the snapshot named in megatron_options.inc, in no particular order.
absl::Span<const MegatronOption> MegatronOptions();

// The option with this spelling, or null. Constant time.
const MegatronOption* FindMegatronOption(absl::string_view flag);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_
