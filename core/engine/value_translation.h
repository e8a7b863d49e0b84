// Values of a job's options in the configuration languages of engines that take no words.
#ifndef HAPMOE_CORE_ENGINE_VALUE_TRANSLATION_H_
#define HAPMOE_CORE_ENGINE_VALUE_TRANSLATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/arguments.h"

namespace hapmoe::engine {

// Writes one value of an option as a scalar of the language. Fails with InvalidArgument where the
// language would read something else.
using ScalarWriter = absl::StatusOr<std::string> (*)(const Argument& argument,
                                                     const std::string& text);

// What an option sets: "true" or "false" for a switch, "null" where it has no value, else a scalar
// or a list in brackets. Lists of one that Megatron-LM itself takes for their value are scalars.
absl::StatusOr<std::string> TranslatedValue(const Argument& argument, ScalarWriter scalar,
                                            absl::string_view separator);

// Whether the value of a float option is one in plain digits, which every language reads alike.
bool IsPlainFloat(const std::string& text);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_VALUE_TRANSLATION_H_
