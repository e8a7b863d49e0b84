#include "tests/core/testing/fixtures.h"

#include <utility>

namespace hapmoe::testing {

using model::LayerKind;
using model::TransformerSpec;

cost::Fabric TestFabric() {
  cost::Fabric fabric;
  fabric.domain_bytes_per_second = 100;
  fabric.pair_bytes_per_second = 20;
  fabric.network_bytes_per_second = 10;
  fabric.domain_latency_seconds = 0.01;
  fabric.network_latency_seconds = 0.1;
  fabric.domain = 8;
  return fabric;
}

profile::AcceleratorProfile UnitProfile(const std::string& name) {
  profile::AcceleratorProfile profile;
  profile.name = name;
  profile.vendor = "Unit";
  profile.architecture = "unit";
  profile.bf16_flops_per_second = 1e12;
  profile.fp16_flops_per_second = 1e12;
  profile.memory_bytes = 1e12;
  profile.memory_bytes_per_second = 1e30;
  profile.scale_up_bytes_per_second = 1e9;
  profile.scale_up_pair_bytes_per_second = 1e9;
  profile.scale_up_domain = 1;
  profile.network_bytes_per_second = 1e9;
  return profile;
}

std::shared_ptr<const profile::AcceleratorProfile> ScaledProfile(const std::string& name,
                                                                 double speed,
                                                                 double memory_bytes) {
  profile::AcceleratorProfile profile = UnitProfile(name);
  profile.bf16_flops_per_second = 1e12 * speed;
  profile.memory_bytes = memory_bytes;
  profile.memory_bytes_per_second = 1e12 * speed;
  profile.scale_up_bytes_per_second = 200e9;
  profile.scale_up_pair_bytes_per_second = 200e9;
  profile.network_bytes_per_second = 20e9;
  profile.network_latency_seconds = 1e-6;
  return std::make_shared<const profile::AcceleratorProfile>(profile);
}

TransformerSpec SmallModel(int64_t layers, int64_t hidden, int64_t experts) {
  TransformerSpec spec;
  spec.layers = layers;
  spec.hidden = hidden;
  spec.ffn_hidden = 2 * hidden;
  spec.heads = hidden / 64;
  spec.query_groups = spec.heads;
  spec.head_dim = 64;
  spec.gated_mlp = true;
  spec.linear_bias = false;
  spec.qkv_bias = false;
  spec.norm_parameters = 1;
  spec.seq_length = 256;
  spec.max_positions = 256;
  spec.learned_positions = false;
  spec.vocab = 1024;
  spec.tied_embeddings = false;
  if (experts > 0) {
    spec.moe.emplace();
    spec.moe->experts = experts;
    spec.moe->topk = 2;
    spec.moe->ffn_hidden = spec.ffn_hidden;
    spec.moe->grouped_gemm = true;
  }
  spec.layer_kinds.assign(static_cast<size_t>(layers),
                          experts > 0 ? LayerKind::kMoe : LayerKind::kDense);
  return spec;
}

model::TrainingSpec SmallTraining(int64_t global_batch, int64_t micro_batch) {
  model::TrainingSpec training;
  training.micro_batch = micro_batch;
  training.global_batch = global_batch;
  training.attention_dropout = 0;
  training.hidden_dropout = 0;
  training.optimizer.distributed = true;
  training.dispatcher = model::Dispatcher::kAllToAll;
  return training;
}

cluster::Pool SmallPool(const std::string& name, int64_t nodes, int64_t accelerators_per_node) {
  cluster::Pool pool;
  pool.name = name;
  pool.accelerator = name;
  pool.nodes = nodes;
  pool.accelerators_per_node = accelerators_per_node;
  return pool;
}

TransformerSpec Llama3Of8B() {
  TransformerSpec spec = SmallModel(32, 4096);
  spec.ffn_hidden = 14336;
  spec.heads = 32;
  spec.query_groups = 8;
  spec.head_dim = 128;
  spec.seq_length = 8192;
  spec.max_positions = 8192;
  spec.vocab = 128256;
  return spec;
}

TransformerSpec Mixtral8x7B() {
  TransformerSpec spec = SmallModel(32, 4096, 8);
  spec.ffn_hidden = 14336;
  spec.moe->ffn_hidden = 14336;
  spec.heads = 32;
  spec.query_groups = 8;
  spec.head_dim = 128;
  spec.seq_length = 4096;
  spec.max_positions = 32768;
  spec.vocab = 32000;
  return spec;
}

cost::Problem TestProblem(model::TransformerSpec model) {
  cost::Problem problem;
  problem.model = std::move(model);
  problem.training = SmallTraining(64);
  problem.cluster.pools = {SmallPool("a", 4, 8)};
  problem.profiles = {ScaledProfile("a", 1, 1e12)};
  return problem;
}

plan::Chunk Layers(int64_t first, int64_t count) {
  plan::Chunk chunk;
  chunk.first_layer = first;
  chunk.layers = count;
  return chunk;
}

}  // namespace hapmoe::testing
