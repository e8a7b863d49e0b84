#include "core/cost/layer_cost.h"

#include <algorithm>
#include <vector>

#include "core/cost/communication_time.h"

namespace hapmoe::cost {
namespace {

using model::Group;
using model::Operation;
using model::OperationKind;
using model::Operations;
using model::Phase;

double* PartOf(Group group, PassSeconds& pass) {
  switch (group) {
    case Group::kTensor:
      return &pass.tensor;
    case Group::kContext:
      return &pass.context;
    case Group::kExpert:
    case Group::kExpertTensor:
    case Group::kDispatch:
      return &pass.expert;
    case Group::kNone:
      return &pass.compute;
  }
  return &pass.compute;
}

bool Replays(const Operation& op, const RecomputeMode& mode) {
  if (op.phase == Phase::kBackward) return false;
  return mode.full || (op.replayed_by & mode.modules) != 0;
}

bool Drops(const Operation& op, const RecomputeMode& mode) {
  return mode.full || (op.dropped_by & mode.modules) != 0;
}

// The router and the output layer are not Transformer Engine's, and run in full precision.
double ProductWeights(const Operation& op) {
  if (!op.low_precision) return 0;
  const double weight = static_cast<double>(op.n) * static_cast<double>(op.k);
  if (op.kind == OperationKind::kGemm) return weight;
  return op.kind == OperationKind::kGroupedGemm ? weight * static_cast<double>(op.groups) : 0;
}

// Scales all arithmetic so that each pass takes what was measured.
void ScaleTo(const profile::LayerTimes& measured, double correction, TimedOperations& timed) {
  double forward = 0;
  double backward = 0;
  for (const TimedOperation& one : timed) {
    forward += one.forward_seconds;
    backward += one.backward_seconds;
  }
  const auto evidence = [&](double seconds) {
    Evidence all;
    (measured.measured ? all.measured_seconds : all.interpolated_seconds) = seconds;
    return all;
  };
  for (TimedOperation& one : timed) {
    one.forward_seconds *= forward > 0 ? correction * measured.forward_seconds / forward : 1;
    one.backward_seconds *= backward > 0 ? correction * measured.backward_seconds / backward : 1;
    one.forward_evidence = evidence(one.forward_seconds);
    one.backward_evidence = evidence(one.backward_seconds);
    one.forward_host_seconds = 0;  // The measurement waited for the host as well.
    one.backward_host_seconds = 0;
  }
}

}  // namespace

PassSeconds& PassSeconds::operator+=(const PassSeconds& other) {
  compute += other.compute;
  tensor += other.tensor;
  context += other.context;
  expert += other.expert;
  launch += other.launch;
  return *this;
}

PassSeconds& PassSeconds::operator*=(double factor) {
  compute *= factor;
  tensor *= factor;
  context *= factor;
  expert *= factor;
  launch *= factor;
  return *this;
}

LayerCost& LayerCost::operator+=(const LayerCost& other) {
  forward += other.forward;
  backward += other.backward;
  recompute += other.recompute;
  evidence += other.evidence;
  saved_bytes += other.saved_bytes;
  dense_parameters += other.dense_parameters;
  expert_parameters += other.expert_parameters;
  product_weights += other.product_weights;
  return *this;
}

LayerCost& LayerCost::operator*=(double factor) {
  forward *= factor;
  backward *= factor;
  recompute *= factor;
  evidence *= factor;
  saved_bytes *= factor;
  dense_parameters *= factor;
  expert_parameters *= factor;
  product_weights *= factor;
  return *this;
}

TimedOperations TimeOperations(const Operations& operations, const model::TrainingSpec& training,
                               const ComputeTime& compute, const StageLinks& links,
                               double launch_seconds, const profile::LayerTimes* measured) {
  TimedOperations timed(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    TimedOperation& one = timed[i];
    one.operation = operations[i];
    one.forward_seconds = compute.Forward(one.operation, training, one.forward_evidence);
    one.backward_seconds = compute.Backward(one.operation, training, one.backward_evidence);
    one.forward_host_seconds = launch_seconds * one.operation.forward_launches;
    one.backward_host_seconds = launch_seconds * one.operation.backward_launches;
  }
  if (measured != nullptr) {
    ScaleTo(*measured, compute.corrections().of(profile::Term::kProducts), timed);
  }
  const double routing = compute.corrections().of(profile::Term::kRouting);
  for (TimedOperation& one : timed) {
    if (!one.operation.routed) continue;
    one.forward_seconds *= routing;
    one.backward_seconds *= routing;
    one.forward_evidence *= routing;
    one.backward_evidence *= routing;
  }
  const bool includes_tensor = measured != nullptr && measured->includes_tensor_communication;
  for (TimedOperation& one : timed) {
    const Operation& op = one.operation;
    if (op.kind != OperationKind::kCollective) continue;
    if (includes_tensor && op.group == Group::kTensor) continue;
    const double seconds = OperationSeconds(op, links) * (op.routed ? routing : 1);
    one.exposed_seconds = seconds;
    if (op.beside >= 0) {
      const double first_piece = op.pieces > 1 ? seconds / static_cast<double>(op.pieces) : 0;
      one.exposed_seconds =
          std::max(first_piece, seconds - timed[static_cast<size_t>(op.beside)].forward_seconds);
    }
  }
  return timed;
}

LayerCost CostOf(const TimedOperations& operations, const model::TrainingSpec& training,
                 const RecomputeMode& mode, double input_bytes) {
  LayerCost cost;
  if (mode.full) cost.saved_bytes = input_bytes;
  struct {
    double forward = 0;
    double backward = 0;
    double recompute = 0;
  } host;
  for (const TimedOperation& one : operations) {
    const Operation& op = one.operation;
    cost.dense_parameters += op.dense_parameters;
    cost.expert_parameters += op.expert_parameters;
    cost.product_weights += ProductWeights(op);
    if (!Drops(op, mode)) cost.saved_bytes += op.saved_bytes;
    const bool replays = Replays(op, mode);
    host.forward += one.forward_host_seconds;
    host.backward += one.backward_host_seconds;
    if (replays) host.recompute += one.forward_host_seconds;
    if (op.kind == OperationKind::kCollective) {
      PassSeconds& pass = op.phase == Phase::kForward ? cost.forward : cost.backward;
      *PartOf(op.group, pass) += one.exposed_seconds;
      if (op.routed) cost.evidence.routed_seconds += one.exposed_seconds;
      if (replays) *PartOf(op.group, cost.recompute) += one.exposed_seconds;
      continue;
    }
    cost.forward.compute += one.forward_seconds;
    cost.backward.compute += one.backward_seconds;
    cost.evidence += one.forward_evidence;
    cost.evidence += one.backward_evidence;
    if (op.routed) cost.evidence.routed_seconds += one.forward_seconds + one.backward_seconds;
    if (replays) {
      cost.recompute.compute += one.forward_seconds;
      cost.evidence += one.forward_evidence;
    }
  }
  if (training.overlap.expert_parallel) {
    // Dispatch and combine run beside the arithmetic of another micro-batch.
    cost.forward.expert = std::max(0.0, cost.forward.expert - cost.forward.compute);
    cost.backward.expert = std::max(0.0, cost.backward.expert - cost.backward.compute);
  }
  cost.forward.launch = std::max(0.0, host.forward - cost.forward.total());
  cost.recompute.launch = std::max(0.0, host.recompute - cost.recompute.total());
  cost.backward.launch = std::max(0.0, host.backward - cost.backward.total());
  for (const PassSeconds* pass : {&cost.forward, &cost.backward, &cost.recompute}) {
    cost.evidence.communication_seconds += pass->tensor + pass->context + pass->expert;
    cost.evidence.launch_seconds += pass->launch;
  }
  return cost;
}

WorkingSet WorkingSetOf(const TimedOperations& operations, const model::TrainingSpec& training,
                        const RecomputeMode& mode) {
  WorkingSet set;
  const double element = static_cast<double>(model::BytesPerElement(training.precision));
  for (const TimedOperation& one : operations) {
    const Operation& op = one.operation;
    if (op.kind == OperationKind::kGemm || op.kind == OperationKind::kGroupedGemm) {
      // Of input and output; of scores, before and behind the softmax.
      const int64_t columns = op.weight ? op.n + op.k : 2 * std::max(op.n, op.k);
      set.gradient_bytes = std::max(
          set.gradient_bytes, element * static_cast<double>(op.m) * static_cast<double>(columns));
    }
    if (Drops(op, mode)) set.replayed_bytes += op.saved_bytes;
  }
  return set;
}

}  // namespace hapmoe::cost
