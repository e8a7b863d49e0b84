#include "core/cost/memory.h"

#include <algorithm>
#include <array>

#include "core/cost/stage_links.h"

namespace hapmoe::cost {
namespace {

// NCCL's default: 4 MiB for each of 16 channels, send and receive (NCCL_BUFFSIZE).
constexpr double kCommunicatorBytes = 2.0 * 16 * 4 * 1024 * 1024;

// Workspaces of matrix products: Transformer Engine's (module/base.py,
// get_cublas_workspace_size_bytes), and the framework's own for the forward and for the backward
// pass's thread (CUDABlas.cpp), 32 MiB each from compute capability 9 on, less before.
constexpr double kWorkspaceBytes = 3.0 * 32 * 1024 * 1024;

// Weights cast to 8 bit for the first micro-batch and kept for the others, by rows and by columns
// (module/base.py, get_weight_workspace).
constexpr double kCastWeightBytes = 2;

// What comes and goes at one moment.
struct Passing {
  PeakMoment moment = PeakMoment::kBackward;
  double activations = 0;
  double working_set = 0;
  double logits = 0;
  double dispatch = 0;

  double total() const { return activations + working_set + logits + dispatch; }
};

}  // namespace

double StateBytes(const model::TrainingSpec& training) {
  const model::Optimizer& optimizer = training.optimizer;
  const double master = training.precision == model::Precision::kFp32
                            ? 0
                            : static_cast<double>(optimizer.main_parameter_bytes);
  const double first = static_cast<double>(optimizer.first_moment_bytes);
  const double second =
      optimizer.name == "adam" ? static_cast<double>(optimizer.second_moment_bytes) : 0;
  return master + first + second;
}

MemoryBreakdown MemoryOf(const StageCost& stage, const Problem& problem, const cluster::Pool& pool,
                         const profile::AcceleratorProfile& profile, const plan::Degrees& degrees,
                         double in_flight, int64_t process_groups) {
  const model::TrainingSpec& training = problem.training;
  const model::Optimizer& optimizer = training.optimizer;
  const double dense = stage.passes.dense_parameters;
  const double expert = stage.passes.expert_parameters;
  const double element = static_cast<double>(model::BytesPerElement(training.precision));
  // Section 6.2 of the engine's rules: parameters and gradients whole, states sharded by ZeRO-1.
  double dense_shards = 1;
  double expert_shards = 1;
  if (optimizer.distributed) {
    const double instances = static_cast<double>(optimizer.instances);
    dense_shards = std::max(1.0, static_cast<double>(DenseSyncPlacement(degrees).size) / instances);
    expert_shards =
        std::max(1.0, static_cast<double>(ExpertSyncPlacement(degrees).size) / instances);
  }
  const double owned = dense / dense_shards + expert / expert_shards;
  const double states = owned * StateBytes(training);
  MemoryBreakdown memory;
  memory.parameters_bytes = (dense + expert) * (training.fp8_parameters ? 1 : element);
  memory.gradients_bytes = (dense + expert) * static_cast<double>(training.gradient_bytes);
  memory.optimizer_bytes = states * (1 - optimizer.offload_ratio);
  // Gradients are copied to the host in 32 bit, beside the states (hybrid_optimizer.py,
  // cpu_copy_map_grad).
  memory.host_bytes = owned * (StateBytes(training) + 4) * optimizer.offload_ratio;
  if (pool.host_memory_bytes.has_value()) {
    memory.host_budget_bytes =
        *pool.host_memory_bytes / static_cast<double>(pool.accelerators_per_node);
  }
  memory.placeholder_bytes = stage.placeholder_bytes + kWorkspaceBytes;
  if (training.fp8 && !training.fp8_parameters) {
    memory.placeholder_bytes += stage.passes.product_weights * kCastWeightBytes;
  }

  const double saved = stage.passes.saved_bytes * in_flight;
  // The step widens gradients that are narrower than it computes in (distrib_optimizer.py,
  // _copy_model_grads_to_main_grads); a precision-aware optimizer reads them as they are.
  const bool widens =
      !optimizer.precision_aware && training.gradient_bytes < optimizer.main_gradient_bytes;
  const double widened = widens ? owned * static_cast<double>(optimizer.main_gradient_bytes) : 0;
  // The loss is over before the backward pass of the output layer begins, and that before the one
  // of the last layer; all of them see all activations. The embedding comes last, when its
  // micro-batch has let go of all others.
  const std::array<Passing, 5> moments = {{
      {.moment = PeakMoment::kBackward,
       .activations = saved,
       .working_set = stage.working_set.total(),
       .dispatch = stage.dispatch_bytes},
      {.moment = PeakMoment::kLoss, .activations = saved, .logits = stage.logits_bytes},
      {.moment = PeakMoment::kOutput, .activations = saved, .logits = stage.output_backward_bytes},
      {.moment = PeakMoment::kEmbedding,
       .activations = std::max(0.0, saved - stage.passes.saved_bytes),
       .working_set = stage.embedding_gradient_bytes},
      {.moment = PeakMoment::kOptimizer, .working_set = widened * (1 - optimizer.offload_ratio)},
  }};
  const Passing& peak =
      *std::max_element(moments.begin(), moments.end(),
                        [](const Passing& a, const Passing& b) { return a.total() < b.total(); });
  memory.moment = peak.moment;
  const double correction = profile.corrections.of(profile::Term::kActivations);
  memory.activations_bytes = correction * peak.activations;
  memory.working_set_bytes = correction * peak.working_set;
  memory.logits_bytes = correction * peak.logits;
  memory.dispatch_bytes = correction * peak.dispatch;
  // What is allocated once leaves no gaps.
  memory.slack_bytes = correction * peak.total() * profile.allocator_slack_ratio *
                       profile.corrections.of(profile::Term::kSlack);
  memory.communication_bytes = static_cast<double>(process_groups) * kCommunicatorBytes;
  memory.framework_bytes = profile.context_bytes;
  memory.budget_bytes = profile.memory_bytes * (1 - problem.memory_headroom_ratio);
  memory.in_flight_micro_batches = in_flight;
  return memory;
}

}  // namespace hapmoe::cost
