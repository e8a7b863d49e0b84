// The argument list of a Megatron-LM job, split into options and their values.
#ifndef HAPMOE_CORE_ENGINE_ARGUMENTS_H_
#define HAPMOE_CORE_ENGINE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // Longer lists, and longer values, are refused unread.
  static constexpr size_t kMaxArguments = 20000;
  static constexpr size_t kMaxValueBytes = 1 << 20;

  // Splits argv as Megatron-LM's parser does: "--flag=value" is understood, abbreviations are not.
  // Faults (unknown options, missing values, values of the wrong type or outside the choices) are
  // appended to `violations`; what could be read is returned all the same. An argument whose value
  // is at fault is left out.
  static Arguments Parse(absl::Span<const std::string> argv, Violations& violations);

  const std::vector<Argument>& all() const { return arguments_; }

  // The last argument that sets `dest` (argparse's destination, "num_layers"), or null.
  const Argument* Find(absl::string_view dest) const;

 private:
  std::vector<Argument> arguments_;
  absl::flat_hash_map<absl::string_view, size_t> last_;  // Keys are static text of the options.
};

// Numbers as Python's int() and float() read them: blanks around, underscores between digits.
bool ParsePythonInt(absl::string_view text, int64_t* value);
bool ParsePythonFloat(absl::string_view text, double* value);

// At most 80 bytes of a caller's text, fit for a message: printable, cut with an ellipsis.
std::string Quoted(absl::string_view text);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_ARGUMENTS_H_
