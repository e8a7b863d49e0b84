#include "core/cost/layer_cost.h"

#include <algorithm>
#include <vector>

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

}  // namespace

PassSeconds& PassSeconds::operator+=(const PassSeconds& other) {
  compute += other.compute;
  tensor += other.tensor;
  context += other.context;
  expert += other.expert;
  return *this;
}

PassSeconds& PassSeconds::operator-=(const PassSeconds& other) {
  compute -= other.compute;
  tensor -= other.tensor;
  context -= other.context;
  expert -= other.expert;
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
  return *this;
}

LayerCost& LayerCost::operator-=(const LayerCost& other) {
  forward -= other.forward;
  backward -= other.backward;
  recompute -= other.recompute;
  evidence.measured_seconds -= other.evidence.measured_seconds;
  evidence.interpolated_seconds -= other.evidence.interpolated_seconds;
  evidence.analytic_seconds -= other.evidence.analytic_seconds;
  saved_bytes -= other.saved_bytes;
  dense_parameters -= other.dense_parameters;
  expert_parameters -= other.expert_parameters;
  return *this;
}

LayerCost LayerCoster::Cost(const Operations& operations, const RecomputeMode& mode,
                            double input_bytes) const {
  LayerCost cost;
  if (mode.full) cost.saved_bytes = input_bytes;
  std::vector<double> forward_seconds(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    cost.dense_parameters += op.dense_parameters;
    cost.expert_parameters += op.expert_parameters;
    if (!Drops(op, mode)) cost.saved_bytes += op.saved_bytes;
    if (op.kind == OperationKind::kCollective) continue;
    Evidence once;
    forward_seconds[i] = compute_.Forward(op, training_, once);
    cost.forward.compute += forward_seconds[i];
    cost.evidence += once;
    cost.backward.compute += compute_.Backward(op, training_, cost.evidence);
    if (Replays(op, mode)) {
      cost.recompute.compute += forward_seconds[i];
      cost.evidence += once;
    }
  }
  const auto charge = [&](const Operation& op, double seconds, PassSeconds& pass) {
    *PartOf(op.group, pass) += seconds;
    cost.evidence.analytic_seconds += seconds;
  };
  for (const Operation& op : operations) {
    if (op.kind != OperationKind::kCollective) continue;
    double exposed =
        CollectiveSeconds(op.collective, PlacementOf(op.group, degrees_), fabric_, op.bytes);
    if (op.beside >= 0) {
      const double hidden = exposed - forward_seconds[static_cast<size_t>(op.beside)];
      const double first_piece = op.pieces > 1 ? exposed / static_cast<double>(op.pieces) : 0;
      exposed = std::max(first_piece, hidden);
    }
    charge(op, exposed, op.phase == Phase::kForward ? cost.forward : cost.backward);
    if (Replays(op, mode)) charge(op, exposed, cost.recompute);
  }
  if (training_.overlap.expert_parallel) {
    // Dispatch and combine run beside the arithmetic of another micro-batch.
    for (PassSeconds* pass : {&cost.forward, &cost.backward}) {
      const double exposed = std::max(0.0, pass->expert - pass->compute);
      cost.evidence.analytic_seconds -= pass->expert - exposed;
      pass->expert = exposed;
    }
  }
  return cost;
}

WorkingSet LayerCoster::Workspace(const Operations& operations, const RecomputeMode& mode) const {
  WorkingSet set;
  const double element = static_cast<double>(model::BytesPerElement(training_.precision));
  for (const Operation& op : operations) {
    if (op.kind == OperationKind::kGemm || op.kind == OperationKind::kGroupedGemm) {
      set.gradient_bytes = std::max(set.gradient_bytes, element * static_cast<double>(op.m) *
                                                            static_cast<double>(op.n + op.k));
    }
    if (Drops(op, mode)) set.replayed_bytes += op.saved_bytes;
  }
  return set;
}

}  // namespace hapmoe::cost
