#include "tests/core/engine/argument_lists.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace hapmoe::engine {

Argv Words(const std::string& text) { return absl::StrSplit(text, ' ', absl::SkipEmpty()); }

Argv With(Argv argv, const std::string& words) {
  for (std::string& word : Words(words)) argv.push_back(std::move(word));
  return argv;
}

Argv Without(const Argv& argv, const std::string& flag) {
  Argv rest;
  bool skips = false;
  for (const std::string& word : argv) {
    if (absl::StartsWith(word, "--")) skips = word == flag;
    if (!skips) rest.push_back(word);
  }
  return rest;
}

Argv Dense() {
  return Words(
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --seq-length 8192 "
      "--max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 128 --bf16 "
      "--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
      "--untie-embeddings-and-output-weights --use-distributed-optimizer --train-iters 10 "
      "--lr 1e-4 --min-lr 1e-5 --tokenizer-type NullTokenizer --vocab-size 128256 --mock-data");
}

Argv Experts() {
  return With(Dense(),
              "--num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall "
              "--moe-grouped-gemm --vocab-size 32000");
}

Argv Latent() {
  return Words(
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--kv-channels 128 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
      "--global-batch-size 8192 --bf16 --swiglu --disable-bias-linear --normalization RMSNorm "
      "--qk-layernorm --position-embedding-type rope --untie-embeddings-and-output-weights "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --mtp-num-layers 1 "
      "--num-experts 256 --moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048 "
      "--moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --moe-router-num-groups 8 "
      "--moe-router-group-topk 4 --moe-router-score-function sigmoid "
      "--moe-router-enable-expert-bias --moe-grouped-gemm --moe-token-dispatcher-type flex "
      "--use-distributed-optimizer --tokenizer-type NullTokenizer --vocab-size 129280");
}

}  // namespace hapmoe::engine
