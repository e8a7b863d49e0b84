#include <algorithm>

#include "core/model/operation_builder.h"

namespace hapmoe::model {

void OperationBuilder::DenseMlp() {
  const double hidden = static_cast<double>(model_.hidden);
  const double ffn = static_cast<double>(model_.ffn_hidden) / static_cast<double>(sharding_.tp);
  const double gate = ActivationWidth();
  Operation& in = Gemm("mlp_in", inside_, gate * ffn, hidden);
  in.dense_parameters = hidden * gate * ffn;
  if (model_.linear_bias) in.dense_parameters += gate * ffn;
  in.saved_bytes = between_ * hidden * element_;  // The norm's output.
  in.dropped_by = kRecomputeLayerNorm | kRecomputeMlp;
  in.replayed_by = kRecomputeMlp;
  const int first = last();
  EnterTensorRegion(first, inside_, hidden);
  Operation& act = Stream("mlp_activation", (gate + 1) * inside_ * ffn);
  act.saved_bytes = inside_ * gate * ffn * element_;
  act.dropped_by = kRecomputeMlp;
  act.replayed_by = kRecomputeMlp;
  Operation& out = Gemm("mlp_out", inside_, hidden, ffn);
  out.dense_parameters = hidden * ffn;
  if (model_.linear_bias) out.dense_parameters += hidden;
  out.saved_bytes = inside_ * ffn * element_;
  out.dropped_by = kRecomputeMlp;
  out.replayed_by = kRecomputeMlp;
  const int second = last();
  LeaveTensorRegion(second, inside_, hidden);
  for (int i = first; i <= last(); ++i) {
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= kRecomputeMlp;
  }
}

void OperationBuilder::SharedExperts() {
  const double hidden = static_cast<double>(model_.hidden);
  const double ffn =
      static_cast<double>(model_.moe->shared_ffn_hidden) / static_cast<double>(sharding_.tp);
  const double gate = ActivationWidth();
  const uint32_t modules = kRecomputeSharedExperts | kRecomputeMoe;
  Operation& in = Gemm("shared_expert_in", inside_, gate * ffn, hidden);
  in.dense_parameters = hidden * gate * ffn;
  const int first = last();
  EnterTensorRegion(first, inside_, hidden);
  Operation& act = Stream("shared_expert_activation", (gate + 1) * inside_ * ffn);
  act.saved_bytes = inside_ * gate * ffn * element_;
  act.dropped_by = modules;
  Operation& out = Gemm("shared_expert_out", inside_, hidden, ffn);
  out.dense_parameters = hidden * ffn;
  out.saved_bytes = inside_ * ffn * element_;
  out.dropped_by = modules;
  if (model_.moe->shared_gate) out.dense_parameters += hidden;
  LeaveTensorRegion(last(), inside_, hidden);
  for (int i = first; i <= last(); ++i) {
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= modules;
  }
}

void OperationBuilder::Experts() {
  const MixtureOfExperts& moe = *model_.moe;
  const double hidden = static_cast<double>(model_.hidden);
  const double width = moe.latent > 0 ? static_cast<double>(moe.latent) : hidden;
  const double ffn = static_cast<double>(moe.ffn_hidden) / static_cast<double>(sharding_.etp);
  const double gate = ActivationWidth();
  const double local_experts = static_cast<double>(moe.experts) / static_cast<double>(sharding_.ep);
  const Imbalance imbalance = ExpertImbalance(model_, training_, sharding_);
  const double received = ExpertTokens(model_, sharding_) * imbalance.time;
  const double held = ExpertTokens(model_, sharding_) * imbalance.saved;
  const double routed = received / static_cast<double>(sharding_.etp);  // Sent by this rank.
  const int first = last() + 1;

  Operation& router = Gemm("router", between_, static_cast<double>(moe.experts), hidden);
  router.dense_parameters = hidden * static_cast<double>(moe.experts);
  if (moe.router_bias) router.dense_parameters += static_cast<double>(moe.experts);
  router.model_flops = false;
  router.low_precision = false;
  router.saved_bytes = between_ * hidden * element_;  // The norm's output.
  router.dropped_by = kRecomputeLayerNorm;
  Operation& scores = Stream("router_scores", 4 * between_ * static_cast<double>(moe.experts));
  scores.saved_bytes = 2 * between_ * static_cast<double>(moe.experts) * kFp32Bytes;
  scores.dropped_by = kRecomputeMoe;
  if (moe.latent > 0) {
    Operation& down = Gemm("latent_down", between_, width, hidden);
    down.dense_parameters = hidden * width;
  }

  // Dispatch, and the way back. The backward pass runs the same pattern in reverse.
  const double send = routed * width * element_;
  const bool many = sharding_.ep > 1;
  const double between_bytes = between_ * width * element_;
  const double dispatch_ranks = static_cast<double>(sharding_.ep * sharding_.etp);
  Stream("permute", 2 * routed * width);
  const auto exchange = [&](Phase phase, bool dispatch) {
    switch (sharding_.dispatcher.value_or(training_.dispatcher)) {
      case Dispatcher::kAllGather:
        if (dispatch_ranks > 1) {
          Communicate(dispatch ? "dispatch_gather" : "combine_scatter",
                      dispatch == (phase == Phase::kForward) ? Collective::kAllGather
                                                             : Collective::kReduceScatter,
                      Group::kDispatch, phase, between_bytes * dispatch_ranks);
        }
        return;
      case Dispatcher::kFlex:
        // Over etp x ep, where every expert counts once for each of its etp shards
        // (token_dispatcher.py, MoEFlexTokenDispatcher): no gather over etp follows.
        if (dispatch_ranks > 1) {
          Communicate(dispatch ? "dispatch" : "combine", Collective::kDispatch, Group::kDispatch,
                      phase, between_bytes * imbalance.time)
              .routing = {moe.experts * sharding_.etp, moe.topk * sharding_.etp, moe.router_groups,
                          moe.router_group_topk};
        }
        return;
      case Dispatcher::kAllToAll:
        if (many) {
          Communicate(dispatch ? "dispatch" : "combine", Collective::kAllToAll, Group::kExpert,
                      phase, send);
        }
        if (sharding_.etp > 1) {
          Communicate(dispatch ? "dispatch_gather" : "combine_scatter",
                      dispatch == (phase == Phase::kForward) ? Collective::kAllGather
                                                             : Collective::kReduceScatter,
                      Group::kExpertTensor, phase, received * width * element_);
        }
        return;
    }
  };
  exchange(Phase::kForward, /*dispatch=*/true);
  exchange(Phase::kBackward, /*dispatch=*/true);

  const bool own_groups = sharding_.ep > 1 || sharding_.etp != sharding_.tp;
  const auto hold = [&](Operation& op, double parameters) {
    (own_groups ? op.expert_parameters : op.dense_parameters) = parameters;
  };
  Operation& in = Gemm("experts_in", received, gate * ffn, width);
  in.kind = OperationKind::kGroupedGemm;
  in.groups = static_cast<int64_t>(local_experts);
  hold(in, local_experts * gate * ffn * (width + (model_.linear_bias ? 1 : 0)));
  in.saved_bytes = held * width * element_;
  in.dropped_by = kRecomputeMoe;
  Operation& act = Stream("experts_activation", (gate + 1) * received * ffn);
  act.saved_bytes = held * (gate * ffn * element_ + kFp32Bytes);  // And the probabilities.
  act.dropped_by = kRecomputeMoe;
  act.replayed_by = kRecomputeMoeActivation;
  Operation& out = Gemm("experts_out", received, width, ffn);
  out.kind = OperationKind::kGroupedGemm;
  out.groups = static_cast<int64_t>(local_experts);
  hold(out, local_experts * width * (ffn + (model_.linear_bias ? 1 : 0)));
  out.saved_bytes = held * ffn * element_;
  out.dropped_by = kRecomputeMoe | kRecomputeMoeActivation;

  exchange(Phase::kForward, /*dispatch=*/false);
  exchange(Phase::kBackward, /*dispatch=*/false);
  Stream("unpermute", 2 * routed * width);
  if (moe.latent > 0) {
    Operation& up = Gemm("latent_up", between_, hidden, width);
    up.dense_parameters = hidden * width;
    up.saved_bytes = between_ * width * element_;
    up.dropped_by = kRecomputeMoe;
  }
  for (int i = first; i <= last(); ++i) {
    list_[i].routed = true;
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= kRecomputeMoe;
  }
  if (moe.shared_ffn_hidden > 0) SharedExperts();
}

}  // namespace hapmoe::model
