#include "core/cost/mesh_cost.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "core/cost/communication_time.h"
#include "core/cost/compute_time.h"
#include "core/cost/memory.h"
#include "core/model/operations.h"

namespace hapmoe::cost {
namespace {

using model::LayerKind;
using model::Operations;
using model::Recompute;

constexpr size_t kNone = 0;
constexpr size_t kFull = 1;

// Gradient buckets of Megatron-LM (distributed_data_parallel.py): the last one cannot hide.
constexpr double kBucketElements = 40e6;
// Pinned copies over PCIe reach 0.8 to 0.87 of its rate, streams over memory about as much
// (bandwidthTest and STREAM as commonly published).
constexpr double kHostRatio = 0.8;

// Measured times of the model's dense layers, where a table of the profile is of their very shape.
std::optional<profile::LayerTimes> MeasuredLayer(const Problem& problem,
                                                 const profile::AcceleratorProfile& profile,
                                                 const plan::Degrees& degrees,
                                                 int64_t micro_batch) {
  const model::TransformerSpec& spec = problem.model;
  // A layer with more to compute than its shape tells is another layer.
  const bool plain = !spec.mla.has_value() && !spec.qk_layernorm && !spec.attention_output_gate &&
                     spec.head_dim * spec.heads == spec.hidden;
  if (!plain || degrees.cp > 1) return std::nullopt;
  return profile.FindLayer({.hidden = spec.hidden,
                            .ffn_hidden = spec.ffn_hidden,
                            .gated_mlp = spec.gated_mlp,
                            .heads = spec.heads,
                            .query_groups = spec.query_groups,
                            .seq_length = spec.seq_length,
                            .precision = MatrixPrecisionOf(problem.training)},
                           degrees.tp, micro_batch);
}

WorkingSet Larger(const WorkingSet& a, const WorkingSet& b) {
  return a.total() < b.total() ? b : a;
}

// Distinct shapes of the weights that Transformer Engine's products use, added to `shapes`.
void AddWeightShapes(const TimedOperations& operations,
                     std::set<std::pair<int64_t, int64_t>>& shapes) {
  for (const TimedOperation& one : operations) {
    const model::Operation& op = one.operation;
    const bool product =
        op.kind == model::OperationKind::kGemm || op.kind == model::OperationKind::kGroupedGemm;
    // The router and the output layer are not Transformer Engine's, and run in full precision.
    if (product && op.low_precision) shapes.emplace(op.n, op.k);
  }
}

double PlaceholderBytes(const model::TrainingSpec& training,
                        std::initializer_list<const TimedOperations*> lists) {
  if (!training.keeps_gradient_placeholders) return 0;
  std::set<std::pair<int64_t, int64_t>> shapes;
  for (const TimedOperations* operations : lists) AddWeightShapes(*operations, shapes);
  double elements = 0;
  for (const auto& [rows, columns] : shapes) {
    elements += static_cast<double>(rows) * static_cast<double>(columns);
  }
  return elements * static_cast<double>(model::BytesPerElement(training.precision));
}

}  // namespace

double HostLinkBytesPerSecond(const profile::AcceleratorProfile& profile) {
  return profile.host_link_bytes_per_second * kHostRatio;
}

double HostMemoryBytesPerSecond(const profile::AcceleratorProfile& profile) {
  return profile.host_memory_bytes_per_second * kHostRatio;
}

model::TrainingSpec TrainingOn(const model::TrainingSpec& training,
                               const profile::AcceleratorProfile& profile) {
  model::TrainingSpec own = training;
  own.flash_attention &= profile.fused_attention;
  return own;
}

model::Sharding ShardingOf(const plan::Degrees& degrees, int64_t micro_batch,
                           bool sequence_parallel, std::optional<model::Dispatcher> dispatcher) {
  model::Sharding sharding;
  sharding.tp = degrees.tp;
  sharding.cp = degrees.cp;
  sharding.ep = degrees.ep;
  sharding.etp = degrees.etp;
  sharding.sequence_parallel = sequence_parallel && degrees.tp > 1;
  sharding.micro_batch = micro_batch;
  sharding.dispatcher = dispatcher;
  return sharding;
}

double DispatchBytes(const model::TransformerSpec& model, const model::TrainingSpec& training,
                     const model::Sharding& sharding) {
  const double width =
      static_cast<double>(model.moe->latent > 0 ? model.moe->latent : model.hidden);
  const double received = model::ExpertTokens(model, sharding) *
                          model::ExpertImbalance(model, training, sharding).memory;
  const double ranks = static_cast<double>(sharding.ep * sharding.etp);
  // Beside what this rank's experts take: what all ranks of the group send, of which they are
  // picked (token_dispatcher.py, MoEAllGatherTokenDispatcher), or what this rank sends.
  const bool gathers =
      sharding.dispatcher.value_or(training.dispatcher) == model::Dispatcher::kAllGather;
  const double sent = gathers && ranks > 1 ? model::TokensBetweenRegions(model, sharding) * ranks
                                           : received / static_cast<double>(sharding.etp);
  return (received + sent) * width *
         static_cast<double>(model::BytesPerElement(training.precision));
}

MeshCost::MeshCost(const Problem& problem, int64_t pool, const plan::Degrees& degrees,
                   int64_t micro_batch, bool sequence_parallel,
                   const std::vector<uint32_t>& modules,
                   std::optional<model::Dispatcher> dispatcher)
    : MeshCost(problem, pool, degrees, micro_batch, sequence_parallel, modules, dispatcher,
               StageLinks(FabricOf(problem.cluster.pools[static_cast<size_t>(pool)],
                                   *problem.profiles[static_cast<size_t>(pool)]),
                          degrees)) {}

MeshCost::MeshCost(const Problem& problem, int64_t pool, const plan::Degrees& degrees,
                   int64_t micro_batch, bool sequence_parallel,
                   const std::vector<uint32_t>& modules,
                   std::optional<model::Dispatcher> dispatcher, const StageLinks& links)
    : problem_(problem),
      pool_(problem.cluster.pools[static_cast<size_t>(pool)]),
      profile_(*problem.profiles[static_cast<size_t>(pool)]),
      degrees_(degrees),
      links_(links) {
  const model::TransformerSpec& spec = problem.model;
  const model::TrainingSpec training = TrainingOn(problem.training, profile_);
  const model::Sharding sharding = ShardingOf(degrees, micro_batch, sequence_parallel, dispatcher);
  const ComputeTime compute(profile_, problem.products.get());
  const double launch = profile_.launch_seconds * profile_.corrections.of(profile::Term::kHost);
  const auto time = [&](const Operations& operations) {
    return TimeOperations(operations, training, compute, links_, launch);
  };
  const auto cost = [&](const Operations& operations) {
    return CostOf(time(operations), training, RecomputeMode{}, 0);
  };
  const double element = static_cast<double>(model::BytesPerElement(training.precision));
  const double between = model::TokensBetweenRegions(spec, sharding);
  const double inside = model::TokensInRegions(spec, sharding);
  const double hidden = static_cast<double>(spec.hidden);

  layer_input_bytes_ = between * hidden * element;
  border_bytes_ = between * hidden * (training.fp32_residual ? 4 : element);
  moe_before_.resize(spec.layer_kinds.size() + 1);
  for (size_t i = 0; i < spec.layer_kinds.size(); ++i) {
    moe_before_[i + 1] = moe_before_[i] + (spec.layer_kinds[i] == LayerKind::kMoe ? 1 : 0);
  }
  const bool has_moe = moe_before_.back() > 0;
  const bool has_dense = moe_before_.back() < spec.layers;
  TimedOperations dense;
  TimedOperations moe;
  LayerCost prediction;
  if (has_dense) {
    const std::optional<profile::LayerTimes> measured =
        MeasuredLayer(problem, profile_, degrees_, micro_batch);
    dense = TimeOperations(model::LayerOperations(spec, training, LayerKind::kDense, sharding),
                           training, compute, links_, launch,
                           measured.has_value() ? &*measured : nullptr);
  }
  if (has_moe) moe = time(model::LayerOperations(spec, training, LayerKind::kMoe, sharding));
  if (spec.mtp_layers > 0) {
    prediction = cost(model::PredictionOperations(spec, training, sharding));
  }
  const auto add_mode = [&](const RecomputeMode& mode) {
    ModeCost one;
    one.mode = mode;
    one.dense = {CostOf(dense, training, mode, layer_input_bytes_),
                 WorkingSetOf(dense, training, mode)};
    one.moe = {CostOf(moe, training, mode, layer_input_bytes_), WorkingSetOf(moe, training, mode)};
    if (spec.mtp_layers > 0) {
      one.prediction = prediction;
      one.prediction += spec.mtp_kind() == LayerKind::kMoe ? one.moe.cost : one.dense.cost;
    }
    modes_.push_back(one);
  };
  add_mode({});
  add_mode({.full = true});
  for (const uint32_t set : modules) {
    const auto same = [set](const ModeCost& mode) { return mode.mode.modules == set; };
    if (std::none_of(modes_.begin(), modes_.end(), same)) add_mode({.modules = set});
  }
  embedding_ = cost(model::EmbeddingOperations(spec, training, sharding));
  output_ = cost(model::OutputOperations(spec, training, sharding, true));
  final_norm_ = cost(model::FinalNormOperations(spec, training, sharding));
  const int64_t rows = spec.PaddedVocab(degrees.tp) / degrees.tp;
  const double vocab = static_cast<double>(rows);
  embedding_weights_ = vocab * hidden;
  // Logits in the training precision, and in 32 bit for the softmax that the backward pass needs.
  // The compiled functions of the fused loss write a second copy in 32 bit where the others work in
  // place (fusions/fused_cross_entropy.py).
  const double copies = training.fused_cross_entropy ? 2 : 1;
  softmax_bytes_ = inside * vocab * (training.cross_entropy_in_place ? element : 4);
  logits_bytes_ = training.cross_entropy_in_place
                      ? softmax_bytes_
                      : inside * vocab * element + copies * softmax_bytes_;
  // The gradient of the logits is rounded before the product; the weight's gradient or its
  // placeholder is a tensor of its own (layers.py,
  // LinearWithGradAccumulationAndAsyncCommunication), and input and input gradient are whole where
  // sequence parallelism gathers them.
  output_backward_bytes_ = (inside * vocab + vocab * hidden + 2 * inside * hidden) * element;
  dense_placeholder_bytes_ = PlaceholderBytes(training, {&dense});
  moe_placeholder_bytes_ = PlaceholderBytes(training, {&moe});
  both_placeholder_bytes_ = PlaceholderBytes(training, {&dense, &moe});
  if (has_moe) dispatch_bytes_ = DispatchBytes(spec, training, sharding);
}

const MeshCost::ModeCost& MeshCost::ModeOf(const Recompute& recompute) const {
  switch (recompute.granularity) {
    case Recompute::Granularity::kNone:
      return modes_[kNone];
    case Recompute::Granularity::kFull:
      return modes_[kFull];
    case Recompute::Granularity::kSelective:
      break;
  }
  for (const ModeCost& mode : modes_) {
    if (!mode.mode.full && mode.mode.modules == recompute.modules) return mode;
  }
  return modes_[kNone];
}

void MeshCost::AddLayers(const ModeCost& mode, int64_t first, int64_t last,
                         StageCost& stage) const {
  const int64_t moe =
      moe_before_[static_cast<size_t>(last)] - moe_before_[static_cast<size_t>(first)];
  const int64_t dense = last - first - moe;
  const auto add = [&](const KindCost& kind, int64_t count) {
    if (count == 0) return;
    LayerCost cost = kind.cost;
    cost *= static_cast<double>(count);
    stage.passes += cost;
    stage.working_set = Larger(stage.working_set, kind.working_set);
  };
  add(mode.moe, moe);
  add(mode.dense, dense);
  stage.dense_layers |= dense > 0;
  stage.moe_layers |= moe > 0;
  if (moe > 0) stage.dispatch_bytes = dispatch_bytes_;
}

double MeshCost::PlaceholdersOf(const StageCost& stage) const {
  if (stage.dense_layers && stage.moe_layers) return both_placeholder_bytes_;
  if (stage.moe_layers) return moe_placeholder_bytes_;
  return stage.dense_layers ? dense_placeholder_bytes_ : 0;
}

StageCost MeshCost::Chunk(const plan::Chunk& chunk, const Recompute& recompute) const {
  const model::TransformerSpec& spec = problem_.model;
  StageCost stage;
  const int64_t first = chunk.first_layer;
  const int64_t last = first + chunk.layers;
  const ModeCost* prediction_mode = &ModeOf(recompute);
  if (recompute.granularity != Recompute::Granularity::kFull) {
    AddLayers(*prediction_mode, first, last, stage);
  } else if (recompute.method == Recompute::Method::kBlock) {
    const int64_t split = std::clamp(first + recompute.num_layers, first, last);
    AddLayers(modes_[kFull], first, split, stage);
    AddLayers(modes_[kNone], split, last, stage);
    prediction_mode = &modes_[kNone];  // The engine skips it with this method.
  } else {
    AddLayers(modes_[kFull], first, last, stage);
    // One input is kept for every unit of num_layers layers, and a whole unit is brought back.
    const int64_t unit = std::max<int64_t>(1, recompute.num_layers);
    const int64_t units = (chunk.layers + unit - 1) / unit;
    stage.passes.saved_bytes -= static_cast<double>(chunk.layers - units) * layer_input_bytes_;
    stage.working_set.replayed_bytes *= static_cast<double>(std::min(unit, chunk.layers));
  }
  const double element = static_cast<double>(model::BytesPerElement(problem_.training.precision));
  if (chunk.embedding) {
    stage.passes += embedding_;
    stage.embedding_gradient_bytes = embedding_weights_ * element;
  }
  if (chunk.mtp_layers > 0) {
    for (int64_t i = 0; i < chunk.mtp_layers; ++i) stage.passes += prediction_mode->prediction;
    const KindCost& kind =
        spec.mtp_kind() == LayerKind::kMoe ? prediction_mode->moe : prediction_mode->dense;
    stage.working_set = Larger(stage.working_set, kind.working_set);
    if (spec.mtp_kind() == LayerKind::kMoe) stage.dispatch_bytes = dispatch_bytes_;
    (spec.mtp_kind() == LayerKind::kMoe ? stage.moe_layers : stage.dense_layers) = true;
    stage.logits_bytes += static_cast<double>(chunk.mtp_layers) * softmax_bytes_;
    // Prediction embeds its tokens with a copy of the word embedding.
    if (!chunk.embedding) stage.passes.dense_parameters += embedding_weights_;
  }
  if (chunk.loss) {
    stage.passes += output_;
    stage.output_backward_bytes = output_backward_bytes_ + stage.logits_bytes;
    stage.logits_bytes += logits_bytes_;
    const bool shares_embedding = chunk.embedding || chunk.mtp_layers > 0;
    if (spec.tied_embeddings && shares_embedding) {
      stage.passes.dense_parameters -= embedding_weights_;
    }
  }
  // With prediction layers the final norm stays with the last decoder layer.
  const bool ends_decoder =
      spec.mtp_layers > 0 ? (last == spec.layers && chunk.layers > 0) : chunk.loss;
  if (ends_decoder) stage.passes += final_norm_;
  stage.placeholder_bytes = PlaceholdersOf(stage);
  return stage;
}

StageCost MeshCost::Stage(const plan::Stage& stage) const {
  StageCost sum;
  for (const plan::Chunk& chunk : stage.chunks) {
    const StageCost cost = Chunk(chunk, stage.recompute);
    sum.passes += cost.passes;
    sum.working_set = Larger(sum.working_set, cost.working_set);
    sum.logits_bytes = std::max(sum.logits_bytes, cost.logits_bytes);
    sum.output_backward_bytes = std::max(sum.output_backward_bytes, cost.output_backward_bytes);
    sum.embedding_gradient_bytes =
        std::max(sum.embedding_gradient_bytes, cost.embedding_gradient_bytes);
    sum.dispatch_bytes = std::max(sum.dispatch_bytes, cost.dispatch_bytes);
    sum.dense_layers |= cost.dense_layers;
    sum.moe_layers |= cost.moe_layers;
  }
  sum.placeholder_bytes = PlaceholdersOf(sum);
  return sum;
}

MemoryBreakdown MeshCost::Memory(const StageCost& stage, double in_flight,
                                 int64_t process_groups) const {
  return MemoryOf(stage, problem_, pool_, profile_, degrees_, in_flight, process_groups);
}

TailCost MeshCost::Tail(const StageCost& stage) const {
  const model::TrainingSpec& training = problem_.training;
  const model::Optimizer& optimizer = training.optimizer;
  const GroupSplit& dense_group = links_.dense_sync();
  const GroupSplit& expert_group = links_.expert_sync();
  const double dense = stage.passes.dense_parameters;
  const double expert = stage.passes.expert_parameters;
  const double element = static_cast<double>(model::BytesPerElement(training.precision));
  const auto over_groups = [&](model::Collective collective, double bytes_per_element) {
    return CollectiveSeconds(collective, dense_group, fabric(), dense * bytes_per_element) +
           CollectiveSeconds(collective, expert_group, fabric(), expert * bytes_per_element);
  };
  const double buckets = std::max(1.0, std::ceil((dense + expert) / kBucketElements));
  const auto exposed = [&](double seconds, bool overlapped, double beside) {
    return overlapped ? std::max(seconds / buckets, seconds - beside) : seconds;
  };
  TailCost tail;
  const auto reduce =
      optimizer.distributed ? model::Collective::kReduceScatter : model::Collective::kAllReduce;
  // Recomputation of the last micro-batch would hide a little more. It does not count, so that the
  // least recomputation that fits is always the best one.
  tail.gradient_sync_seconds =
      exposed(over_groups(reduce, static_cast<double>(training.gradient_bytes)),
              training.overlap.gradient_reduce, stage.passes.backward.compute);
  double elements = dense + expert;
  if (optimizer.distributed) {
    tail.parameter_gather_seconds =
        exposed(over_groups(model::Collective::kAllGather, element),
                training.overlap.parameter_gather, stage.passes.forward.compute);
    elements = dense / static_cast<double>(std::max<int64_t>(1, dense_group.ranks)) +
               expert / static_cast<double>(std::max<int64_t>(1, expert_group.ranks));
  }
  // Read the gradient, read and write the states, write the parameter.
  const double traffic =
      static_cast<double>(optimizer.main_gradient_bytes) + 2 * StateBytes(training) + element;
  const double on_device = elements * (1 - optimizer.offload_ratio);
  const double on_host = elements * optimizer.offload_ratio;
  tail.optimizer_seconds = profile_.corrections.of(profile::Term::kMemory) * on_device * traffic /
                               (profile_.memory_bytes_per_second * profile_.memory_ratio) +
                           on_host *
                               (static_cast<double>(optimizer.main_gradient_bytes) + element) /
                               HostLinkBytesPerSecond(profile_) +
                           on_host * traffic / HostMemoryBytesPerSecond(profile_);
  return tail;
}

int64_t MeshCost::process_groups(bool pipeline) const {
  int64_t groups = pipeline ? 2 : 0;  // Pipeline, and first and last stage together.
  const auto count = [&](int64_t size) { groups += size > 1 ? 1 : 0; };
  count(degrees_.tp);
  count(degrees_.cp);
  count(links_.dense_sync().ranks);
  if (problem_.model.moe.has_value()) {
    count(degrees_.ep);
    count(degrees_.etp);
    count(degrees_.dispatch_ranks());
    count(links_.expert_sync().ranks);
  }
  return groups;
}

}  // namespace hapmoe::cost
