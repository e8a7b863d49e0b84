// What a plan is predicted to take, in time and memory, and where the numbers rest.
#ifndef HAPMOE_CORE_COST_PREDICTION_H_
#define HAPMOE_CORE_COST_PREDICTION_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hapmoe::cost {

// Seconds by the evidence they rest on.
struct Evidence {
  // Arithmetic and memory traffic: measured at this shape, between measured ones, or calculated.
  double measured_seconds = 0;
  double interpolated_seconds = 0;
  double analytic_seconds = 0;
  double communication_seconds = 0;
  double launch_seconds = 0;  // Issuing operations on the host.
  // Of all these, what depends on where tokens are routed: dispatch, routed experts and combine.
  double routed_seconds = 0;

  double total() const {
    return measured_seconds + interpolated_seconds + analytic_seconds + communication_seconds +
           launch_seconds;
  }
  Evidence& operator+=(const Evidence& other) {
    measured_seconds += other.measured_seconds;
    interpolated_seconds += other.interpolated_seconds;
    analytic_seconds += other.analytic_seconds;
    communication_seconds += other.communication_seconds;
    launch_seconds += other.launch_seconds;
    routed_seconds += other.routed_seconds;
    return *this;
  }
  Evidence& operator*=(double factor) {
    measured_seconds *= factor;
    interpolated_seconds *= factor;
    analytic_seconds *= factor;
    communication_seconds *= factor;
    launch_seconds *= factor;
    routed_seconds *= factor;
    return *this;
  }
};

// When a rank holds most.
// kOutput and kEmbedding: the backward pass of the output layer, and of the embedding.
enum class PeakMoment { kBackward, kLoss, kOutput, kEmbedding, kOptimizer };

// Memory of one rank at its fullest moment; the parts add up to peak_bytes().
struct MemoryBreakdown {
  PeakMoment moment = PeakMoment::kBackward;
  double parameters_bytes = 0;
  double gradients_bytes = 0;
  double optimizer_bytes = 0;
  // Held all along by matrix products: gradients without a value, 8-bit copies of weights,
  // workspaces.
  double placeholder_bytes = 0;
  double activations_bytes = 0;  // Of all micro-batches in flight.
  double working_set_bytes = 0;  // Of one layer's recomputation and backward pass, or of the step.
  double logits_bytes = 0;
  double dispatch_bytes = 0;
  double slack_bytes = 0;          // Held by the caching allocator beyond what is in use.
  double communication_bytes = 0;  // Of communication libraries, outside the allocator.
  double framework_bytes = 0;      // Context, outside the allocator.
  double budget_bytes = 0;         // What the accelerator has, headroom taken off.
  // Optimizer states of one rank in host memory, not in the peak, and its share of what the node
  // has.
  double host_bytes = 0;
  double host_budget_bytes = std::numeric_limits<double>::infinity();
  double in_flight_micro_batches = 0;

  // What torch.cuda.max_memory_allocated() reads.
  double allocated_bytes() const {
    return parameters_bytes + gradients_bytes + optimizer_bytes + placeholder_bytes +
           activations_bytes + working_set_bytes + logits_bytes + dispatch_bytes;
  }
  // What torch.cuda.max_memory_reserved() reads.
  double reserved_bytes() const { return allocated_bytes() + slack_bytes; }
  // What the device has to hold, and its driver's tools show.
  double peak_bytes() const { return reserved_bytes() + communication_bytes + framework_bytes; }
  // What the accelerator or the host lacks, whichever lacks more; nothing where both suffice.
  double short_bytes() const { return std::max({0.0, accelerator_excess(), host_excess()}); }
  bool host_binds() const { return host_excess() > std::max(0.0, accelerator_excess()); }
  bool fits() const { return short_bytes() <= 0; }

 private:
  double accelerator_excess() const { return peak_bytes() - budget_bytes; }
  double host_excess() const { return host_bytes - host_budget_bytes; }
};

// Where the time of an iteration goes on one stage; the parts add up to the iteration time.
struct TimeBreakdown {
  int64_t stage = 0;
  double compute_seconds = 0;
  double recompute_seconds = 0;
  double tensor_parallel_seconds = 0;
  double context_parallel_seconds = 0;
  double expert_parallel_seconds = 0;
  double pipeline_seconds = 0;
  double bubble_seconds = 0;
  double gradient_sync_seconds = 0;
  double optimizer_seconds = 0;
  double launch_seconds = 0;  // Waiting for the host to issue operations.
};

// One stage, in pipeline order.
struct StagePrediction {
  double forward_seconds = 0;   // One micro-batch, all chunks.
  double backward_seconds = 0;  // The same, recomputation included.
  MemoryBreakdown memory;
  int64_t dense_parameters = 0;   // Held by one rank.
  int64_t expert_parameters = 0;  // Held by one rank.
};

struct Prediction {
  double iteration_seconds = 0;
  // Four out of five measured iterations are expected between these.
  double low_iteration_seconds = 0;
  double high_iteration_seconds = 0;
  double tokens_per_second = 0;
  double model_flops = 0;  // Of one iteration, recomputation not counted.
  double model_flops_utilization = 0;
  TimeBreakdown time;
  std::vector<StagePrediction> stages;
  Evidence evidence;  // Of the busy time of all stages.
  std::vector<std::string> assumptions;

  // Over all stages; each of another stage, perhaps.
  double allocated_memory_bytes() const {
    double peak = 0;
    for (const StagePrediction& stage : stages) {
      peak = std::max(peak, stage.memory.allocated_bytes());
    }
    return peak;
  }
  double reserved_memory_bytes() const {
    double peak = 0;
    for (const StagePrediction& stage : stages) {
      peak = std::max(peak, stage.memory.reserved_bytes());
    }
    return peak;
  }
  double device_memory_bytes() const {
    double peak = 0;
    for (const StagePrediction& stage : stages) peak = std::max(peak, stage.memory.peak_bytes());
    return peak;
  }
  bool fits() const {
    for (const StagePrediction& stage : stages) {
      if (!stage.memory.fits()) return false;
    }
    return true;
  }
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_PREDICTION_H_
