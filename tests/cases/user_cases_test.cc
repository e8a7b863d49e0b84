// What users ran into, asked of the planner as a caller asks it. Each row names where it was told.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/embedded/embedded.h"
#include "server/planning/planner.h"

namespace hapmoe::server {
namespace {

struct UserCase {
  const char* name;
  const char* told_at;
  std::string arguments;
  const char* accelerator;
  int nodes;
  int accelerators_per_node;
  // The rule that refuses the layout; empty: the layout is costed.
  const char* refused_by = "";
  bool fits = true;  // Costed layouts only.
};

void PrintTo(const UserCase& c, std::ostream* out) { *out << c.name; }

constexpr char kSmall[] =
    "--num-layers 8 --hidden-size 1024 --ffn-hidden-size 4096 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 "
    "--global-batch-size 64 --bf16 --use-distributed-optimizer ";

class Asking : public ::testing::TestWithParam<UserCase> {
 protected:
  Asking() {
    ProfileStore::Options options;
    for (const EmbeddedFile& file : EmbeddedProfiles()) {
      options.built_in.push_back({file.name, file.content});
    }
    options.storage = std::make_unique<MemoryProfileStorage>();
    profiles_ = ProfileStore::Open(std::move(options)).value();
    std::vector<absl::string_view> texts;
    for (const EmbeddedFile& file : EmbeddedEngines()) texts.push_back(file.content);
    engines_ = std::make_unique<EngineCatalog>(EngineCatalog::Parse(texts).value());
  }

  std::unique_ptr<ProfileStore> profiles_;
  std::unique_ptr<EngineCatalog> engines_;
  SearchSolver solver_;
  DeadlineTimer timer_;
  ThreadPool pool_{1, 1};
};

TEST_P(Asking, IsAnsweredRightly) {
  const UserCase& c = GetParam();
  v1::EvaluateRequest request;
  for (const absl::string_view word : absl::StrSplit(c.arguments, ' ', absl::SkipEmpty())) {
    request.mutable_job()->add_megatron_args(std::string(word));
  }
  v1::Pool* pool = request.mutable_cluster()->add_pools();
  pool->set_name("pool");
  pool->set_accelerator(c.accelerator);
  pool->set_nodes(c.nodes);
  pool->set_accelerators_per_node(c.accelerators_per_node);
  const Planner planner(*profiles_, *engines_, solver_, pool_, timer_, {});
  const auto answer = planner.Evaluate(request);
  if (*c.refused_by != '\0') {
    ASSERT_FALSE(answer.ok()) << c.told_at;
    // Rules travel in the error's details.
    std::string details;
    answer.status().ForEachPayload([&details](absl::string_view, const absl::Cord& payload) {
      details += std::string(payload);
    });
    EXPECT_THAT(details, ::testing::HasSubstr(c.refused_by)) << c.told_at;
    return;
  }
  ASSERT_TRUE(answer.ok()) << c.told_at << ": " << answer.status();
  EXPECT_EQ(answer->prediction().fits(), c.fits) << c.told_at;
}

std::string Small(const char* more) { return std::string(kSmall) + more; }

INSTANTIATE_TEST_SUITE_P(
    Users, Asking,
    ::testing::Values(
        UserCase{
            "AModelThatCannotFitHasNoPlanThatFits", "ai-dynamo/aiconfigurator pull 509",
            "--num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 "
            "--num-attention-heads 128 --group-query-attention --num-query-groups 8 "
            "--seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256 --swiglu "
            "--disable-bias-linear --normalization RMSNorm --untie-embeddings-and-output-weights "
            "--micro-batch-size 1 --global-batch-size 1 --bf16",
            "H100-SXM", 1, 1, "", false},
        UserCase{"WorldNotDivisibleByTheGrid", "NVIDIA/Megatron-LM pull 5768",
                 Small("--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4"),
                 "H100-SXM", 1, 8, "world_divisible_by_tp_pp_cp"},
        UserCase{"HeadsNotDivisibleByTensorParallel", "NVIDIA/Megatron-LM pull 5768",
                 Small("--num-attention-heads 12 --hidden-size 1536 "
                       "--tensor-model-parallel-size 8"),
                 "H100-SXM", 1, 8, "heads_divisible_by_tp"},
        UserCase{"ExpertParallelWithoutExperts", "NVIDIA/Megatron-LM pull 5768",
                 Small("--expert-model-parallel-size 4"), "H100-SXM", 1, 8,
                 "expert_parallel_needs_experts"},
        UserCase{"VirtualStagesWithoutAPipeline", "NVIDIA/Megatron-LM pull 5768",
                 Small("--num-layers-per-virtual-pipeline-stage 2"), "H100-SXM", 1, 8,
                 "virtual_stages_need_pipeline"},
        UserCase{"FewerKeyHeadsThanTensorRanksRunInThisEngine",
                 "huggingface/transformers issue 48307",
                 Small("--group-query-attention --num-query-groups 4 "
                       "--tensor-model-parallel-size 8 --sequence-parallel"),
                 "H100-SXM", 1, 8},
        UserCase{"FewerMicroBatchesThanStages", "pytorch/torchtitan issue 775",
                 Small("--pipeline-model-parallel-size 8 --global-batch-size 4"), "H100-SXM", 1,
                 8}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace hapmoe::server
