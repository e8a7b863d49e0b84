#include "server/wire/to_wire.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/plan/pipeline_layout.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace hapmoe::server {
namespace {

using model::Recompute;

// A bound of a search that has none yet is 0 on the wire: that bounds everything.
double Finite(double value) { return std::isfinite(value) ? value : 0; }

int64_t Bytes(double value) { return std::llround(value); }

v1::MemoryBreakdown MemoryToWire(const cost::MemoryBreakdown& memory) {
  v1::MemoryBreakdown wire;
  wire.set_parameters_bytes(Bytes(memory.parameters_bytes));
  wire.set_gradients_bytes(Bytes(memory.gradients_bytes));
  wire.set_optimizer_bytes(Bytes(memory.optimizer_bytes));
  wire.set_placeholder_bytes(Bytes(memory.placeholder_bytes));
  wire.set_activations_bytes(Bytes(memory.activations_bytes));
  wire.set_working_set_bytes(Bytes(memory.working_set_bytes));
  wire.set_logits_bytes(Bytes(memory.logits_bytes));
  wire.set_dispatch_bytes(Bytes(memory.dispatch_bytes));
  wire.set_communication_bytes(Bytes(memory.communication_bytes));
  wire.set_framework_bytes(Bytes(memory.framework_bytes));
  wire.set_slack_bytes(Bytes(memory.slack_bytes));
  switch (memory.moment) {
    case cost::PeakMoment::kBackward:
      wire.set_moment(v1::PEAK_MOMENT_BACKWARD);
      break;
    case cost::PeakMoment::kLoss:
      wire.set_moment(v1::PEAK_MOMENT_LOSS);
      break;
    case cost::PeakMoment::kOutput:
      wire.set_moment(v1::PEAK_MOMENT_OUTPUT);
      break;
    case cost::PeakMoment::kEmbedding:
      wire.set_moment(v1::PEAK_MOMENT_EMBEDDING);
      break;
    case cost::PeakMoment::kOptimizer:
      wire.set_moment(v1::PEAK_MOMENT_OPTIMIZER);
      break;
  }
  // The sum of the rounded parts, so that they add up.
  wire.set_peak_bytes(wire.parameters_bytes() + wire.gradients_bytes() + wire.optimizer_bytes() +
                      wire.placeholder_bytes() + wire.activations_bytes() +
                      wire.working_set_bytes() + wire.logits_bytes() + wire.dispatch_bytes() +
                      wire.slack_bytes() + wire.communication_bytes() + wire.framework_bytes());
  wire.set_budget_bytes(Bytes(memory.budget_bytes));
  wire.set_host_bytes(Bytes(memory.host_bytes));
  if (std::isfinite(memory.host_budget_bytes)) {
    wire.set_host_budget_bytes(Bytes(memory.host_budget_bytes));
  }
  wire.set_in_flight_micro_batches(memory.in_flight_micro_batches);
  return wire;
}

v1::Recompute RecomputeToWire(const Recompute& recompute) {
  v1::Recompute wire;
  switch (recompute.granularity) {
    case Recompute::Granularity::kNone:
      wire.set_granularity("none");
      break;
    case Recompute::Granularity::kSelective:
      wire.set_granularity("selective");
      for (const auto& [bit, name] : model::kRecomputeModuleNames) {
        if ((recompute.modules & bit) != 0) wire.add_modules(name);
      }
      break;
    case Recompute::Granularity::kFull:
      wire.set_granularity("full");
      wire.set_method(recompute.method == Recompute::Method::kUniform ? "uniform" : "block");
      wire.set_num_layers(static_cast<int32_t>(recompute.num_layers));
      break;
  }
  return wire;
}

v1::Stage StageToWire(const plan::Stage& stage, const cost::StagePrediction& prediction,
                      const plan::StagePlacement& placement) {
  v1::Stage wire;
  for (const plan::Chunk& chunk : stage.chunks) {
    v1::Chunk* to = wire.add_chunks();
    to->set_first_layer(static_cast<int32_t>(chunk.first_layer));
    to->set_layers(static_cast<int32_t>(chunk.layers));
    to->set_embedding(chunk.embedding);
    to->set_mtp_layers(static_cast<int32_t>(chunk.mtp_layers));
    to->set_loss(chunk.loss);
  }
  wire.set_layers(static_cast<int32_t>(stage.layers()));
  wire.set_first_rank(static_cast<int32_t>(placement.first_rank));
  wire.set_ranks(static_cast<int32_t>(placement.ranks));
  for (const int64_t rank : placement.node_ranks) wire.add_node_ranks(static_cast<int32_t>(rank));
  *wire.mutable_recompute() = RecomputeToWire(stage.recompute);
  *wire.mutable_memory() = MemoryToWire(prediction.memory);
  wire.set_forward_seconds(prediction.forward_seconds);
  wire.set_backward_seconds(prediction.backward_seconds);
  wire.set_dense_parameters_per_rank(prediction.dense_parameters);
  wire.set_expert_parameters_per_rank(prediction.expert_parameters);
  return wire;
}

v1::Mesh MeshToWire(const plan::Mesh& mesh, const cost::Problem& problem) {
  v1::Mesh wire;
  wire.set_pool(problem.cluster.pools[mesh.pool].name);
  wire.set_accelerator(problem.profiles[mesh.pool]->name);
  wire.set_tp(static_cast<int32_t>(mesh.degrees.tp));
  wire.set_cp(static_cast<int32_t>(mesh.degrees.cp));
  wire.set_dp(static_cast<int32_t>(mesh.degrees.dp));
  wire.set_ep(static_cast<int32_t>(mesh.degrees.ep));
  wire.set_etp(static_cast<int32_t>(mesh.degrees.etp));
  return wire;
}

std::string LayoutOf(const plan::Plan& plan) {
  std::vector<plan::Stage> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    stages.insert(stages.end(), mesh.stages.begin(), mesh.stages.end());
  }
  return plan::PipelineLayoutString(stages);
}

}  // namespace

v1::ExecutionPlan PlanToWire(const plan::Plan& plan, const cost::Prediction& prediction,
                             const plan::NodeAssignment& nodes, const cost::Problem& problem,
                             absl::string_view engine_requirement) {
  v1::ExecutionPlan wire;
  wire.set_engine(plan.engine);
  int32_t index = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    v1::Mesh* to = wire.add_meshes();
    *to = MeshToWire(mesh, problem);
    for (const plan::Stage& stage : mesh.stages) {
      v1::Stage* added = to->add_stages();
      *added = StageToWire(stage, prediction.stages[index], nodes.stages[index]);
      added->set_index(index++);
    }
  }
  wire.set_pipeline_stages(static_cast<int32_t>(plan.pipeline_stages()));
  wire.set_virtual_stages_per_rank(static_cast<int32_t>(plan.virtual_stages()));
  wire.set_micro_batch_size(static_cast<int32_t>(plan.micro_batch));
  wire.set_global_batch_size(static_cast<int32_t>(plan.global_batch));
  wire.set_micro_batches(static_cast<int32_t>(plan.micro_batches));
  wire.set_world_size(static_cast<int32_t>(plan.world_size()));
  wire.set_idle_accelerators(
      static_cast<int32_t>(problem.cluster.accelerators() - plan.world_size()));
  wire.set_sequence_parallel(plan.sequence_parallel);
  if (plan.dispatcher.has_value()) {
    wire.set_token_dispatcher(model::DispatcherName(*plan.dispatcher));
  }
  if (plan.pipeline_stages() > 1) wire.set_pipeline_layout(LayoutOf(plan));
  for (const plan::AssignedNode& node : nodes.nodes) {
    v1::Node* to = wire.add_nodes();
    to->set_node_rank(static_cast<int32_t>(node.node_rank));
    to->set_host(node.host);
    to->set_pool(problem.cluster.pools[node.pool].name);
    to->set_processes(static_cast<int32_t>(node.processes));
    to->set_first_rank(static_cast<int32_t>(node.first_rank));
  }
  wire.set_engine_requirement(std::string(engine_requirement));
  wire.set_plan_id(PlanDigest(wire));
  return wire;
}

v1::Prediction PredictionToWire(const cost::Prediction& prediction) {
  v1::Prediction wire;
  wire.set_iteration_seconds(prediction.iteration_seconds);
  wire.set_low_iteration_seconds(prediction.low_iteration_seconds);
  wire.set_high_iteration_seconds(prediction.high_iteration_seconds);
  wire.set_tokens_per_second(prediction.tokens_per_second);
  wire.set_model_flops_utilization(prediction.model_flops_utilization);
  wire.set_model_flops(prediction.model_flops);
  const cost::TimeBreakdown& time = prediction.time;
  v1::TimeBreakdown* to = wire.mutable_time();
  to->set_stage(static_cast<int32_t>(time.stage));
  to->set_compute_seconds(time.compute_seconds);
  to->set_recompute_seconds(time.recompute_seconds);
  to->set_tensor_parallel_seconds(time.tensor_parallel_seconds);
  to->set_context_parallel_seconds(time.context_parallel_seconds);
  to->set_expert_parallel_seconds(time.expert_parallel_seconds);
  to->set_pipeline_seconds(time.pipeline_seconds);
  to->set_bubble_seconds(time.bubble_seconds);
  to->set_gradient_sync_seconds(time.gradient_sync_seconds);
  to->set_optimizer_seconds(time.optimizer_seconds);
  to->set_launch_seconds(time.launch_seconds);
  wire.set_peak_memory_bytes(Bytes(prediction.allocated_memory_bytes()));
  wire.set_reserved_memory_bytes(Bytes(prediction.reserved_memory_bytes()));
  wire.set_device_memory_bytes(Bytes(prediction.device_memory_bytes()));
  wire.set_fits(prediction.fits());
  const double total = prediction.evidence.total();
  v1::Basis* basis = wire.mutable_basis();
  basis->set_measured_ratio(total > 0 ? prediction.evidence.measured_seconds / total : 0);
  basis->set_interpolated_ratio(total > 0 ? prediction.evidence.interpolated_seconds / total : 0);
  basis->set_communication_ratio(total > 0 ? prediction.evidence.communication_seconds / total : 0);
  basis->set_launch_ratio(total > 0 ? prediction.evidence.launch_seconds / total : 0);
  basis->set_analytic_ratio(1 - basis->measured_ratio() - basis->interpolated_ratio() -
                            basis->communication_ratio() - basis->launch_ratio());
  for (const std::string& assumption : prediction.assumptions) wire.add_assumptions(assumption);
  return wire;
}

google::protobuf::RepeatedPtrField<v1::OperationCoverage> CoverageToWire(
    const std::vector<cost::OperationCoverage>& coverage) {
  double all = 0;
  for (const cost::OperationCoverage& one : coverage) all += one.evidence.total();
  google::protobuf::RepeatedPtrField<v1::OperationCoverage> wire;
  for (const cost::OperationCoverage& one : coverage) {
    v1::OperationCoverage& to = *wire.Add();
    const double total = one.evidence.total();
    to.set_accelerator(one.accelerator);
    to.set_operation(one.operation);
    to.set_m(one.m);
    to.set_n(one.n);
    to.set_k(one.k);
    to.set_groups(one.groups);
    to.set_time_ratio(all > 0 ? total / all : 0);
    to.set_measured_ratio(total > 0 ? one.evidence.measured_seconds / total : 0);
    to.set_interpolated_ratio(total > 0 ? one.evidence.interpolated_seconds / total : 0);
  }
  return wire;
}

v1::SearchStatistics StatisticsToWire(const search::Statistics& statistics) {
  v1::SearchStatistics wire;
  wire.set_candidates(statistics.candidates);
  wire.set_candidates_opened(statistics.candidates_opened);
  for (const auto& [rule, candidates] : statistics.pruned) {
    v1::PrunedCount* pruned = wire.add_pruned();
    pruned->set_rule(rule);
    pruned->set_candidates(candidates);
  }
  wire.set_plans_simulated(statistics.plans_simulated);
  wire.set_labels(statistics.labels);
  return wire;
}

v1::Termination::Limit LimitToWire(search::Limit limit) {
  switch (limit) {
    case search::Limit::kNone:
      return v1::Termination::LIMIT_NONE;
    case search::Limit::kTime:
      return v1::Termination::LIMIT_TIME;
    case search::Limit::kCancelled:
      return v1::Termination::LIMIT_CANCELLED;
    case search::Limit::kFinalists:
      return v1::Termination::LIMIT_FINALISTS;
    case search::Limit::kMemory:
      return v1::Termination::LIMIT_MEMORY;
  }
  return v1::Termination::LIMIT_UNSPECIFIED;
}

v1::Termination TerminationToWire(const search::Termination& termination,
                                  double iteration_seconds) {
  v1::Termination wire;
  wire.set_reason(termination.reason == search::Reason::kOptimal
                      ? v1::Termination::REASON_OPTIMAL
                      : v1::Termination::REASON_INCUMBENT);
  wire.set_limit(LimitToWire(termination.limit));
  wire.set_lower_bound_seconds(Finite(termination.lower_bound_seconds));
  wire.set_gap_ratio(termination.gap_ratio(iteration_seconds));
  for (const std::string& restriction : termination.restrictions) {
    wire.add_restrictions(restriction);
  }
  *wire.mutable_statistics() = StatisticsToWire(termination.statistics);
  return wire;
}

v1::Progress ProgressToWire(const search::Progress& progress, double best_iteration_seconds) {
  v1::Progress wire;
  wire.set_candidates(progress.candidates);
  wire.set_candidates_done(progress.candidates_done);
  wire.set_best_iteration_seconds(best_iteration_seconds);
  wire.set_lower_bound_seconds(Finite(progress.lower_bound_seconds));
  return wire;
}

v1::Artifact ArtifactToWire(engine::Artifact artifact) {
  v1::Artifact wire;
  wire.set_name(std::move(artifact.name));
  wire.set_description(std::move(artifact.description));
  wire.set_content(std::move(artifact.content));
  wire.set_executable(artifact.executable);
  return wire;
}

std::string PlanDigest(const v1::ExecutionPlan& plan) {
  v1::ExecutionPlan anonymous = plan;
  anonymous.clear_plan_id();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    anonymous.SerializeToCodedStream(&coded);
  }
  using Digest = unsigned __int128;  // Parameters: RFC draft-eastlake-fnv, section 2.
  constexpr Digest kPrime = (Digest{0x0000000001000000} << 64) + 0x000000000000013B;
  Digest digest = (Digest{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (const unsigned char byte : bytes) {
    digest ^= byte;
    digest *= kPrime;
  }
  return absl::StrFormat("%016x%016x", static_cast<uint64_t>(digest >> 64),
                         static_cast<uint64_t>(digest));
}

}  // namespace hapmoe::server
