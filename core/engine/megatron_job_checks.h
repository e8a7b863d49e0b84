// The checks of a job's options, as tables; use megatron_job.h.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_JOB_CHECKS_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_JOB_CHECKS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/megatron_job.h"
#include "core/engine/option_values.h"

namespace hapmoe::engine {

// What a check looks at.
struct Options {
  const OptionValues& values;
  const MegatronJob& job;

  bool on(absl::string_view dest) const { return values.Flag(dest); }
  bool has(absl::string_view dest) const { return values.Has(dest); }
  bool is(absl::string_view dest, absl::string_view text) const {
    return values.Text(dest) == text;
  }
  int64_t integer(absl::string_view dest) const { return values.Int(dest).value_or(0); }
  double number(absl::string_view dest) const { return values.Float(dest).value_or(0); }
  bool moe() const { return job.model.moe.has_value(); }
  bool mla() const { return job.model.mla.has_value(); }
  // Emerging optimizers are all but these two.
  bool plain_optimizer() const { return is("optimizer", "adam") || is("optimizer", "sgd"); }
};
struct Check {
  absl::string_view rule;
  absl::string_view dest;  // Of the option at fault.
  bool (*broken)(const Options&);
  absl::string_view message;  // One sentence; all faults here are of switches, without numbers.
};

// Options that the engine refuses to see together, whatever the plan.
absl::Span<const Check> JobChecks();      // Training length, checkpoints, data, shape.
absl::Span<const Check> FeatureChecks();  // Precision, optimizer, overlap, graphs, rare features.

// What is sound to the engine but not described by the model that plans are costed with.
absl::Span<const Check> UnsupportedChecks();

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_JOB_CHECKS_H_
