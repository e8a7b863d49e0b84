// Seconds and bytes of one list of operations on one rank, by where they go.
#ifndef HAPMOE_CORE_COST_LAYER_COST_H_
#define HAPMOE_CORE_COST_LAYER_COST_H_

#include <cstdint>
#include <vector>

#include "core/cost/compute_time.h"
#include "core/cost/prediction.h"
#include "core/cost/stage_links.h"
#include "core/model/operations.h"
#include "core/profile/layer_table.h"

namespace hapmoe::cost {

// Seconds of one pass, by where they go. Communication counts where it is exposed.
struct PassSeconds {
  double compute = 0;
  double tensor = 0;
  double context = 0;
  double expert = 0;
  double launch = 0;  // Waiting for the host, which issues operations slower than they run.

  double total() const { return compute + tensor + context + expert + launch; }
  PassSeconds& operator+=(const PassSeconds& other);
  PassSeconds& operator*=(double factor);
};

// The cost of operations for one micro-batch. Costs of consecutive layers add up.
struct LayerCost {
  PassSeconds forward;
  PassSeconds backward;   // Without recomputation.
  PassSeconds recompute;  // What the backward pass runs again.
  Evidence evidence;      // Of the three passes together.
  double saved_bytes = 0;
  double dense_parameters = 0;
  double expert_parameters = 0;
  double product_weights = 0;  // Elements that Transformer Engine's products multiply by.

  double backward_seconds() const { return backward.total() + recompute.total(); }
  LayerCost& operator+=(const LayerCost& other);
  LayerCost& operator*=(double factor);
};

// What a layer's backward pass needs at once beside what was saved.
struct WorkingSet {
  double gradient_bytes = 0;  // Of the largest product's input and output.
  double replayed_bytes = 0;  // Activations that recomputation brings back.

  double total() const { return gradient_bytes + replayed_bytes; }
};

// How a layer is recomputed: not at all, by modules, or whole.
struct RecomputeMode {
  bool full = false;
  uint32_t modules = 0;

  friend bool operator==(const RecomputeMode&, const RecomputeMode&) = default;
};

// An operation with its times on one mesh.
struct TimedOperation {
  model::Operation operation;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double exposed_seconds = 0;       // Collectives.
  double forward_host_seconds = 0;  // Spent by the host to issue it.
  double backward_host_seconds = 0;
  Evidence forward_evidence;
  Evidence backward_evidence;
};

using TimedOperations = std::vector<TimedOperation>;

// Times each operation once; recomputation modes only differ in what they add up. `launch_seconds`:
// what the host needs to issue one operator. `measured`: times of the whole list, or null; the
// arithmetic of the operations is scaled to them, and nothing waits for the host beside them.
TimedOperations TimeOperations(const model::Operations& operations,
                               const model::TrainingSpec& training, const ComputeTime& compute,
                               const StageLinks& links, double launch_seconds,
                               const profile::LayerTimes* measured = nullptr);

// Adds up a list for one micro-batch. `input_bytes`: what full recomputation keeps, the list's
// input. The host issues operations ahead of the accelerator, so a pass takes the longer of both;
// what the host takes longer is PassSeconds::launch.
LayerCost CostOf(const TimedOperations& operations, const model::TrainingSpec& training,
                 const RecomputeMode& mode, double input_bytes);

WorkingSet WorkingSetOf(const TimedOperations& operations, const model::TrainingSpec& training,
                        const RecomputeMode& mode);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_LAYER_COST_H_
