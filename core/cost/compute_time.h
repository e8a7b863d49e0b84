// How long one accelerator takes for an operation, and what the number rests on.
#ifndef HAPMOE_CORE_COST_COMPUTE_TIME_H_
#define HAPMOE_CORE_COST_COMPUTE_TIME_H_

#include <memory>
#include <optional>
#include <vector>

#include "core/cost/prediction.h"
#include "core/model/operations.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::cost {

// The shape that a time is asked for.
struct KernelShape {
  model::OperationKind kind = model::OperationKind::kGemm;
  profile::MatrixPrecision precision = profile::MatrixPrecision::kBf16;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t groups = 1;
  double flops = 0;
  double bytes = 0;       // Memory traffic.
  bool backward = false;  // Attention only: its backward kernel has an efficiency of its own.
};

// One source of operation times. Thread safe: const after construction.
class KernelTimer {
 public:
  virtual ~KernelTimer() = default;

  // Seconds of one execution, or nothing where this source cannot say.
  virtual std::optional<double> Seconds(const KernelShape& shape) const = 0;
};

// Asks its sources in turn, most trusted first: exact samples, interpolation between samples, and
// the roofline of the data sheet, which always answers. Thread safe.
class ComputeTime {
 public:
  // `profile` must outlive this object.
  explicit ComputeTime(const profile::AcceleratorProfile& profile);

  // Adds the seconds of one execution to the right part of `evidence` and returns them.
  double Seconds(const KernelShape& shape, Evidence& evidence) const;

  // One execution of `op` in the forward direction. Collectives take no arithmetic.
  double Forward(const model::Operation& op, const model::TrainingSpec& training,
                 Evidence& evidence) const;
  // Input and weight gradients of `op`.
  double Backward(const model::Operation& op, const model::TrainingSpec& training,
                  Evidence& evidence) const;

 private:
  std::unique_ptr<KernelTimer> measured_;
  std::unique_ptr<KernelTimer> interpolated_;
  std::unique_ptr<KernelTimer> roofline_;
};

// Precision of the job's matrix products.
profile::MatrixPrecision MatrixPrecisionOf(const model::TrainingSpec& training,
                                           bool low_precision = true);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_COMPUTE_TIME_H_
