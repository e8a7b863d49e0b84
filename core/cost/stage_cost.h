// What the layers of a stage cost and hold, put together.
#ifndef HAPMOE_CORE_COST_STAGE_COST_H_
#define HAPMOE_CORE_COST_STAGE_COST_H_

#include "core/cost/layer_cost.h"

namespace hapmoe::cost {

// Bytes of one micro-batch where nothing else is said.
struct StageCost {
  LayerCost passes;  // All chunks together.
  WorkingSet working_set;
  double logits_bytes = 0;           // At the loss: in the training precision and in 32 bit.
  double output_backward_bytes = 0;  // Then: gradients of logits, of the weight and of the input.
  double embedding_gradient_bytes = 0;
  double dispatch_bytes = 0;
  double placeholder_bytes = 0;  // Held throughout, whatever the micro-batches.
  bool dense_layers = false;
  bool moe_layers = false;
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_STAGE_COST_H_
