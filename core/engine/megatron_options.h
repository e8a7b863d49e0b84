// Every command-line option of Megatron-LM, as data: arity, type, default and choices.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::engine {

// How many values follow an option.
enum class Arity { kNone, kOne, kThree, kZeroOrMore, kOneOrMore };

// kLayerPattern is an integer or a list expression over layers, "([0]*3+[1]*58)"; kIntTuple is
// integers separated by commas, "(1,2)".
enum class ValueType { kBool, kInt, kFloat, kString, kLayerPattern, kIntTuple };

// One option. All text is static.
struct MegatronOption {
  absl::string_view flags;  // All spellings, separated by a space.
  absl::string_view dest;   // Attribute that it sets.
  Arity arity;
  ValueType type;
  absl::string_view default_value;  // As printed; empty for None. "True" with kNone: switches off.
  absl::string_view choices;        // Separated by a space; empty for any.
};

// The options of the snapshot named in megatron_options.inc, in no particular order.
absl::Span<const MegatronOption> MegatronOptions();

// The option with this spelling, or null. Constant time.
const MegatronOption* FindMegatronOption(absl::string_view flag);

// The first option that sets this attribute, or null. Constant time.
const MegatronOption* FindMegatronOptionByDest(absl::string_view dest);

// True for options that older versions knew and this one refuses.
bool IsRemovedMegatronOption(absl::string_view flag);

// The spelling nearest to an unknown one: one that it abbreviates, else the one with the smallest
// edit distance; empty if none is near. Linear in the number of options.
absl::string_view NearestMegatronOption(absl::string_view flag);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_OPTIONS_H_
