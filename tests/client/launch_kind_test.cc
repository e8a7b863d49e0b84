#include "client/launch_kind.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  const char* name;
  const char* program;
  const char* words;
  std::vector<const char*> refusal;  // Parts of it; none where it is not refused.
};

class LaunchKindTest : public ::testing::TestWithParam<Case> {};

TEST_P(LaunchKindTest, IsNamedWithWhatToGiveInstead) {
  const std::vector<std::string> words = absl::StrSplit(GetParam().words, ' ', absl::SkipEmpty());
  const std::string refusal = RefusalOf(TakeApart(GetParam().program, words));
  if (GetParam().refusal.empty()) {
    EXPECT_THAT(refusal, IsEmpty());
    return;
  }
  EXPECT_THAT(refusal, AllOf(HasSubstr("give")));
  for (const char* part : GetParam().refusal) EXPECT_THAT(refusal, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Launches, LaunchKindTest,
    ::testing::Values(
        Case{"Megatron", "torchrun", "pretrain_gpt.py --num-layers 2 --data-path a.b=c", {}},
        Case{"MegatronInADirectoryOfNemo", "torchrun", "/nemo/verl/x.py --num-layers 2", {}},
        Case{"Preparation", "python", "tools/preprocess_data.py --input x", {}},
        Case{"YamlConfiguration",
             "torchrun",
             "pretrain_gpt.py --yaml-cfg x.yaml",
             {"--yaml-cfg", "settings as arguments"}},
        Case{"CheckpointArguments",
             "torchrun",
             "pretrain_gpt.py --use-checkpoint-args --bf16",
             {"--use-checkpoint-args", "--num-layers"}},
        Case{"Bridge",
             "torchrun",
             "scripts/training/run_recipe.py --recipe r model.a=2",
             {"Megatron-Bridge", "--args-file"}},
        Case{"BridgeModule", "torchrun", "-m megatron.bridge.train model.a=2", {"Megatron-Bridge"}},
        Case{"Verl", "python3", "-m verl.trainer.main_ppo actor_rollout_ref.a=2", {"verl"}},
        Case{
            "Nemo", "torchrun", "examples/megatron_gpt_pretraining.py trainer.devices=8", {"NeMo"}},
        Case{"FlagScale",
             "python",
             "run.py --config-path ./c --config-name train action=run",
             {"FlagScale", "--script FILE.yaml"}},
        Case{"Primus", "torchrun", "primus/cli/main.py train --config x.yaml", {"Primus"}},
        Case{"TorchTitan",
             "torchrun",
             "-m torchtitan.train --job.config_file x.toml",
             {"torchtitan"}},
        Case{"DeepSpeed", "deepspeed", "train.py --deepspeed_config ds.json", {"DeepSpeed"}},
        Case{"MegatronDeepSpeed",
             "deepspeed",
             "pretrain_gpt.py --num-layers 4 --deepspeed --deepspeed_config ds.json",
             {"DeepSpeed"}},
        Case{"DeepSpeedByTorchrun", "torchrun", "train.py --deepspeed ds.json", {"DeepSpeed"}},
        Case{"Accelerate", "accelerate", "launch --num_processes 8 train.py --x", {"Accelerate"}},
        Case{"Transformers", "torchrun", "run_clm.py --model_name_or_path x", {"Transformers"}},
        Case{"Hydra", "torchrun", "train.py +model.size=2 data=c4", {"Hydra"}},
        Case{"MindSpeed",
             "torchrun",
             "pretrain_gpt.py --num-layers 4 --num-layer-list 2,2 --use-fused-swiglu",
             {"MindSpeed", "--num-layer-list (--pipeline-model-parallel-layout)",
              "--use-fused-swiglu"}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(LaunchKindTest, TrainingsAreToldFromPreparations) {
  EXPECT_TRUE(
      IsTraining(TakeApart("torchrun", std::vector<std::string>{"x.py", "--num-layers=2"})));
  EXPECT_FALSE(IsTraining(TakeApart("python", std::vector<std::string>{"x.py", "--input", "y"})));
}

}  // namespace
}  // namespace hapmoe::client
