// The argument list of a Megatron-LM job, split into options and their values.
#ifndef HAPMOE_CORE_ENGINE_ARGUMENTS_H_
#define HAPMOE_CORE_ENGINE_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/violation.h"
#include "core/engine/megatron_options.h"

namespace hapmoe::engine {

// One option as it was written.
struct Argument {
  const MegatronOption* option = nullptr;  // Never null.
  std::string flag;                        // As spelled, "--swiglu".
  std::vector<std::string> values;         // As many as the option's arity takes.
};

// The options of a job in the order given. Where an option is repeated, the last one counts, as in
// argparse.
class Arguments {
 public:
  // Splits argv as Megatron-LM's parser does: "--flag=value" is understood, abbreviations are not.
  // Faults (unknown options, missing values, values of the wrong type or outside the choices) are
  // appended to `violations`; what could be read is returned all the same.
  static Arguments Parse(absl::Span<const std::string> argv, Violations& violations);

  const std::vector<Argument>& all() const { return arguments_; }

  // The last argument that sets `dest` (argparse's destination, "num_layers"), or null.
  const Argument* Find(absl::string_view dest) const;

 private:
  std::vector<Argument> arguments_;
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_ARGUMENTS_H_
