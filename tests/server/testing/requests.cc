#include "tests/server/testing/requests.h"

namespace hapmoe::server {

std::vector<std::string> SmallJob() {
  return {"--num-layers",
          "8",
          "--hidden-size",
          "1024",
          "--ffn-hidden-size",
          "4096",
          "--num-attention-heads",
          "16",
          "--seq-length",
          "1024",
          "--max-position-embeddings",
          "1024",
          "--micro-batch-size",
          "1",
          "--global-batch-size",
          "64",
          "--bf16",
          "--swiglu",
          "--disable-bias-linear",
          "--normalization",
          "RMSNorm",
          "--position-embedding-type",
          "rope",
          "--untie-embeddings-and-output-weights",
          "--use-distributed-optimizer",
          "--train-iters",
          "10",
          "--lr",
          "1e-4",
          "--tokenizer-type",
          "NullTokenizer",
          "--vocab-size",
          "32000",
          "--mock-data"};
}

v1::Cluster ClusterOf(const std::string& accelerator, uint32_t nodes) {
  v1::Cluster cluster;
  v1::Pool* pool = cluster.add_pools();
  pool->set_name("pool");
  pool->set_accelerator(accelerator);
  pool->set_nodes(nodes);
  return cluster;
}

v1::PlanRequest SmallPlanRequest() {
  v1::PlanRequest request;
  request.set_request_id("test");
  for (const std::string& argument : SmallJob()) {
    request.mutable_problem()->mutable_job()->add_megatron_args(argument);
  }
  *request.mutable_problem()->mutable_cluster() = ClusterOf("H800", 1);
  return request;
}

v1::EvaluateRequest SmallEvaluateRequest() {
  v1::EvaluateRequest request;
  request.set_request_id("test");
  for (const std::string& argument : SmallJob()) request.mutable_job()->add_megatron_args(argument);
  for (const char* argument :
       {"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2"}) {
    request.mutable_job()->add_megatron_args(argument);
  }
  *request.mutable_cluster() = ClusterOf("H800", 1);
  return request;
}

v1::AcceleratorProfile RoundProfile(const std::string& name) {
  v1::AcceleratorProfile profile;
  profile.set_accelerator(name);
  profile.set_vendor("NVIDIA");
  profile.set_architecture("sm_90");
  profile.mutable_compute()->mutable_bf16_flops_per_second()->set_value(1e15);
  profile.mutable_memory()->mutable_capacity_bytes()->set_value(80e9);
  profile.mutable_memory()->mutable_bytes_per_second()->set_value(3e12);
  profile.mutable_scale_up()->mutable_bytes_per_second()->set_value(200e9);
  profile.mutable_scale_up()->mutable_domain_accelerators()->set_value(8);
  profile.mutable_network()->mutable_bytes_per_second()->set_value(50e9);
  v1::EfficiencyFigures* efficiency = profile.mutable_efficiency();
  efficiency->mutable_matrix_ratio()->set_value(0.5);
  efficiency->mutable_attention_forward_ratio()->set_value(0.5);
  efficiency->mutable_attention_backward_ratio()->set_value(0.5);
  efficiency->mutable_memory_ratio()->set_value(0.5);
  efficiency->mutable_scale_up_ratio()->set_value(0.5);
  efficiency->mutable_network_ratio()->set_value(0.5);
  return profile;
}

}  // namespace hapmoe::server
