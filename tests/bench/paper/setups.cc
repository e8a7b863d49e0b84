#include "tests/bench/paper/setups.h"

#include <utility>

namespace hapmoe::bench {
namespace {

constexpr char kA100[] = "A100-SXM-80GB";
constexpr char k910B[] = "Ascend 910B3";
constexpr char kH800[] = "H800-SXM";
constexpr char kMi300X[] = "MI300X";

// What is given last counts.
std::vector<std::string> With(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> MixtralS() {
  return With(Mixtral8x7B(), {"--num-layers", "24", "--moe-token-dispatcher-type", "allgather",
                              "--global-batch-size", "256"});
}

std::vector<std::string> MixtralL() {
  return With(Mixtral8x7B(), {"--num-layers", "48", "--hidden-size", "6144", "--ffn-hidden-size",
                              "16384", "--num-attention-heads", "48", "--moe-token-dispatcher-type",
                              "alltoall", "--global-batch-size", "512"});
}

std::vector<std::string> Llama2(const std::vector<std::string>& shape) {
  return With({"--seq-length",
               "4096",
               "--max-position-embeddings",
               "4096",
               "--swiglu",
               "--disable-bias-linear",
               "--normalization",
               "RMSNorm",
               "--position-embedding-type",
               "rope",
               "--attention-dropout",
               "0.0",
               "--hidden-dropout",
               "0.0",
               "--untie-embeddings-and-output-weights",
               "--tokenizer-type",
               "NullTokenizer",
               "--vocab-size",
               "32000",
               "--mock-data",
               "--micro-batch-size",
               "1",
               "--global-batch-size",
               "256",
               "--lr",
               "1e-4",
               "--train-iters",
               "10",
               "--bf16",
               "--use-distributed-optimizer",
               "--overlap-param-gather",
               "--overlap-grad-reduce",
               "--sequence-parallel"},
              shape);
}

}  // namespace

std::vector<NamedCluster> MoeClusters() {
  return {
      {"16-1-h", {{kH800, 2}}, 1.12},
      {"16-2-h", {{k910B, 2}}, 1.18},
      {"16-3-h", {{kMi300X, 2}}, 1.10},
      {"16-1", {{kH800, 1}, {k910B, 1}}, std::nullopt},
      {"16-2", {{kH800, 1}, {kMi300X, 1}}, 2.10},
      {"16-3", {{k910B, 1}, {kMi300X, 1}}, std::nullopt},
      {"24-1", {{kH800, 1}, {k910B, 2}}, std::nullopt},
      {"24-2", {{kH800, 1}, {kMi300X, 2}}, std::nullopt},
      {"24-3", {{k910B, 2}, {kMi300X, 1}}, std::nullopt},
      {"32-1", {{kH800, 2}, {k910B, 2}}, 2.30},
      {"32-2", {{kH800, 2}, {kMi300X, 2}}, 1.35},
      {"32-3", {{k910B, 2}, {kMi300X, 2}}, 2.80},
  };
}

std::vector<NamedCluster> DenseClusters() {
  return {{"A100 + 910B", {{kA100, 2}, {k910B, 2}}, std::nullopt}};
}

std::vector<Model> Models() {
  return {
      {"Mixtral-S",
       MixtralS(),
       MoeClusters(),
       {{"hetermoe", 1.40}, {"metis", 1.45}, {"ours", 1.67}},
       /*may_offload=*/false,
       /*floor_over_uniform=*/1.25},
      {"Mixtral-L",
       MixtralL(),
       MoeClusters(),
       {{"hetermoe", 1.47}, {"metis", 1.56}, {"ours", 1.78}},
       /*may_offload=*/true,
       /*floor_over_uniform=*/1.2},
      {"LLaMA-2 7B",
       Llama2({"--num-layers", "32", "--hidden-size", "4096", "--ffn-hidden-size", "11008",
               "--num-attention-heads", "32"}),
       DenseClusters(),
       {},
       /*may_offload=*/false,
       /*floor_over_uniform=*/1.0},
      {"LLaMA-2 13B",
       Llama2({"--num-layers", "40", "--hidden-size", "5120", "--ffn-hidden-size", "13824",
               "--num-attention-heads", "40"}),
       DenseClusters(),
       {},
       /*may_offload=*/false,
       /*floor_over_uniform=*/1.0},
  };
}

std::vector<std::string> Offloaded(std::vector<std::string> megatron_args) {
  return With(std::move(megatron_args),
              {"--use-precision-aware-optimizer", "--optimizer-cpu-offload"});
}

}  // namespace hapmoe::bench
