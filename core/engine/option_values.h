// Typed reading of a job's options, with Megatron-LM's defaults where an option is not given.
#ifndef HAPMOE_CORE_ENGINE_OPTION_VALUES_H_
#define HAPMOE_CORE_ENGINE_OPTION_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/engine/arguments.h"

namespace hapmoe::engine {

// Options are named by their destination, "num_layers". A name that the table of options does not
// know reads as absent.
class OptionValues {
 public:
  // Keeps a reference to `arguments`. Values out of range are reported to `violations`, which may
  // be null.
  OptionValues(const Arguments& arguments, Violations* violations)
      : arguments_(arguments), violations_(violations) {}

  // True if the option was written.
  bool Has(absl::string_view dest) const { return arguments_.Find(dest) != nullptr; }

  // The value of a switch.
  bool Flag(absl::string_view dest) const;

  // The value as text; empty if there is neither a value nor a default.
  std::string Text(absl::string_view dest) const;

  // All values of an option that takes several.
  std::vector<std::string> List(absl::string_view dest) const;

  // A number, or nothing if there is neither a value nor a default.
  std::optional<int64_t> Int(absl::string_view dest) const;
  std::optional<double> Float(absl::string_view dest) const;

  // The same within bounds. A value outside is reported as "value_out_of_range" and not returned.
  std::optional<int64_t> IntIn(absl::string_view dest, int64_t least, int64_t most);
  std::optional<double> FloatIn(absl::string_view dest, double least, double most);

  // The same for options that must be given; "missing_option" otherwise.
  std::optional<int64_t> RequiredIntIn(absl::string_view dest, int64_t least, int64_t most);

  // True if a value was missing or out of range so far.
  bool at_fault() const { return at_fault_; }

 private:
  void Report(absl::string_view rule, absl::string_view dest, std::string message);

  const Arguments& arguments_;
  Violations* violations_;
  bool at_fault_ = false;
};

// The first spelling of the option that sets `dest`, "--num-layers".
std::string FlagOf(absl::string_view dest);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_OPTION_VALUES_H_
