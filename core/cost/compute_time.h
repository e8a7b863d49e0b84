// How long one accelerator takes for an operation, and what the number rests on.
#ifndef HAPMOE_CORE_COST_COMPUTE_TIME_H_
#define HAPMOE_CORE_COST_COMPUTE_TIME_H_

#include "core/cost/prediction.h"
#include "core/cost/product_memo.h"
#include "core/model/operations.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::cost {

// Reads times off a profile's tables, and off its efficiencies where it has no table of a kind.
// Thread safe.
class ComputeTime {
 public:
  // `profile` and `memo` must outlive this object; `memo` may be null.
  explicit ComputeTime(const profile::AcceleratorProfile& profile, ProductMemo* memo = nullptr)
      : profile_(profile), memo_(memo) {}

  // One execution of `op` in the forward direction, in seconds. Adds them to the right part of
  // `evidence`. Collectives take no arithmetic.
  double Forward(const model::Operation& op, const model::TrainingSpec& training,
                 Evidence& evidence) const;
  // Input and weight gradients of `op`.
  double Backward(const model::Operation& op, const model::TrainingSpec& training,
                  Evidence& evidence) const;

  // One matrix product or attention. `extra_bytes`: memory traffic beside operands and result.
  double Product(profile::TableKind kind, profile::MatrixPrecision precision,
                 const profile::OperationShape& shape, double extra_bytes,
                 Evidence& evidence) const;
  // Moving `bytes` through memory.
  double Stream(double bytes, Evidence& evidence) const;

  // Those of the profile; all but routing and whole layers are in the times above.
  const profile::Corrections& corrections() const { return profile_.corrections; }

 private:
  // Grouped products read the table of plain ones where they have none of their own.
  const profile::OperationTable* TableFor(profile::TableKind kind,
                                          profile::MatrixPrecision precision) const;
  double AttentionBackward(profile::MatrixPrecision precision, const profile::OperationShape& shape,
                           Evidence& evidence) const;
  // Reading a 16-bit operand and writing it in 8 bit, as it is and transposed.
  double Cast(const model::Operation& op, const model::TrainingSpec& training, double elements,
              Evidence& evidence) const;
  // Without a table.
  double Roofline(profile::TableKind kind, profile::MatrixPrecision precision,
                  const profile::OperationShape& shape, double extra_bytes) const;

  const profile::AcceleratorProfile& profile_;
  ProductMemo* const memo_;
};

// Precision of the job's matrix products.
profile::MatrixPrecision MatrixPrecisionOf(const model::TrainingSpec& training,
                                           bool low_precision = true);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_COMPUTE_TIME_H_
