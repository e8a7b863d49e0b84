#include "server/warm_up.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/base/interrupter.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::server {
namespace {

constexpr int kLongestNanoseconds = 250'000'000;  // Of each search.

// In fp16, which every accelerator computes in.
constexpr const char* kDenseJob[] = {"--num-layers",
                                     "16",
                                     "--hidden-size",
                                     "1024",
                                     "--num-attention-heads",
                                     "16",
                                     "--seq-length",
                                     "1024",
                                     "--micro-batch-size",
                                     "1",
                                     "--vocab-size",
                                     "32000",
                                     "--global-batch-size",
                                     "64",
                                     "--fp16",
                                     "--max-position-embeddings",
                                     "1024"};
constexpr const char* kExperts[] = {"--num-experts", "8", "--moe-router-topk", "2"};

v1::Problem ProblemOf(bool experts, const std::vector<std::string>& accelerators) {
  v1::Problem problem;
  for (const char* word : kDenseJob) problem.mutable_job()->add_megatron_args(word);
  if (experts) {
    for (const char* word : kExperts) problem.mutable_job()->add_megatron_args(word);
  }
  for (const std::string& accelerator : accelerators) {
    v1::Pool& pool = *problem.mutable_cluster()->add_pools();
    pool.set_name(accelerator);
    pool.set_accelerator(accelerator);
    pool.set_nodes(2);
  }
  problem.mutable_constraints()->mutable_time_budget()->set_nanos(kLongestNanoseconds);
  return problem;
}

}  // namespace

int WarmUp(const Planner& planner, const ProfileCatalog& profiles) {
  const std::vector<std::string> names = profiles.Names();
  int planned = 0;
  for (const size_t pools : {size_t{1}, size_t{2}}) {
    if (names.size() < pools) break;
    for (const bool experts : {false, true}) {
      const v1::Problem problem =
          ProblemOf(experts, {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(pools)});
      const auto answer =
          planner.Plan("", problem, std::make_shared<Interrupter>(), /*observer=*/nullptr);
      if (answer.ok()) ++planned;
    }
  }
  return planned;
}

}  // namespace hapmoe::server
