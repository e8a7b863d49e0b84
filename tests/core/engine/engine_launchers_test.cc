// Launchers of Megatron-Bridge, MindSpeed-LLM and Primus: run by bash, read back, and beside files.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/engine/bridge_overrides.h"
#include "core/engine/launchers.h"
#include "core/engine/mindspeed_options.h"
#include "core/engine/primus_options.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/engine_traits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"
#include "tests/core/engine/launcher_harness.h"

namespace hapmoe::engine {
namespace {

using model::Recompute;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Options = std::map<std::string, std::string>;

std::vector<const plan::Stage*> StagesOf(const plan::Plan& plan) {
  std::vector<const plan::Stage*> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) stages.push_back(&stage);
  }
  return stages;
}

Arguments Parsed(const std::vector<std::string>& argv) {
  Violations violations;
  Arguments arguments = Arguments::Parse(argv, violations);
  EXPECT_THAT(violations, IsEmpty());
  return arguments;
}

// "key=value" words by key; the last of several counts.
Options Overrides(const std::vector<std::string>& words) {
  Options options;
  for (const std::string& word : words) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (parts.size() == 2) options[parts[0]] = parts[1];
  }
  return options;
}

// A job's options without recomputation, layout and degrees of its own, on an engine.
bool Runs(const LauncherCase& launcher_case, const std::string& engine) {
  const plan::EngineTraits& traits = *plan::FindEngine(engine);
  if (traits.max_virtual_stages == 1 && launcher_case.plan.virtual_stages() > 1) return false;
  for (const plan::Stage* stage : StagesOf(launcher_case.plan)) {
    if (!traits.recomputes_modules &&
        stage->recompute.granularity == Recompute::Granularity::kSelective) {
      return false;
    }
  }
  return CheckEngineOptions(engine, Parsed(launcher_case.argv)).empty();
}

class EngineLaunchersTest : public LauncherHarness,
                            public ::testing::WithParamInterface<const char*> {
 protected:
  absl::StatusOr<RenderedCase> Rendered(LauncherCase launcher_case) {
    launcher_case.plan.engine = GetParam();
    absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
    if (!rendered.ok()) return rendered;
    for (const Artifact& artifact : rendered->artifacts) {
      WriteProgram(artifact.name, artifact.content);
    }
    return rendered;
  }

  // What a process of a stage must have been started with, however the engine says it.
  void ExpectStage(const LauncherCase& launcher_case, const plan::Stage& stage,
                   const std::vector<std::string>& words) {
    const std::string engine = GetParam();
    const plan::Degrees& degrees = launcher_case.plan.meshes.front().degrees;
    const Recompute& recompute = stage.recompute;
    const bool full = recompute.granularity == Recompute::Granularity::kFull;
    const bool modules =
        recompute.granularity == Recompute::Granularity::kSelective && recompute.modules != 0;
    const Options options = Overrides(words);
    const auto value = [&options](const std::string& key) {
      const auto found = options.find(key);
      return found == options.end() ? std::string("absent") : found->second;
    };
    if (engine == plan::kMegatronBridge) {
      EXPECT_EQ(value("model.tensor_model_parallel_size"), absl::StrCat(degrees.tp));
      EXPECT_EQ(value("model.context_parallel_size"), absl::StrCat(degrees.cp));
      EXPECT_EQ(value("model.pipeline_model_parallel_size"),
                absl::StrCat(launcher_case.plan.pipeline_stages()));
      EXPECT_EQ(value("model.expert_model_parallel_size"), absl::StrCat(degrees.ep));
      EXPECT_EQ(value("model.pipeline_model_parallel_layout"),
                launcher_case.plan.pipeline_stages() == 1
                    ? "null"
                    : absl::StrCat("\"", LayoutArgument(launcher_case.plan), "\""));
      EXPECT_EQ(value("train.global_batch_size"), absl::StrCat(launcher_case.plan.global_batch));
      EXPECT_EQ(value("train.micro_batch_size"), absl::StrCat(launcher_case.plan.micro_batch));
      EXPECT_EQ(value("model.recompute_granularity"), full      ? "\"full\""
                                                      : modules ? "\"selective\""
                                                                : "null");
      EXPECT_EQ(value("model.recompute_num_layers"),
                full ? absl::StrCat(recompute.num_layers) : "null");
    } else if (engine == plan::kPrimus) {
      EXPECT_EQ(value("recompute_granularity"), full ? "full" : modules ? "selective" : "absent");
      EXPECT_EQ(value("recompute_num_layers"),
                full ? absl::StrCat(recompute.num_layers) : "absent");
      EXPECT_THAT(words, Contains((directory_ / "primus.yaml").string()));
    } else {
      const auto after = [&words](const std::string& flag) {
        const auto found = std::find(words.begin(), words.end(), flag);
        return found == words.end() ? std::string("absent") : *(found + 1);
      };
      EXPECT_EQ(after("--tensor-model-parallel-size"), absl::StrCat(degrees.tp));
      EXPECT_EQ(after("--recompute-granularity"), full ? "full" : "absent");
      EXPECT_EQ(after("--recompute-num-layers"),
                full ? absl::StrCat(recompute.num_layers) : "absent");
      std::vector<int64_t> layers;
      for (const plan::Stage* one : StagesOf(launcher_case.plan)) layers.push_back(one->layers());
      const bool even = std::set<int64_t>(layers.begin(), layers.end()).size() == 1;
      EXPECT_EQ(after("--num-layer-list"), even ? "absent" : absl::StrJoin(layers, ","));
      EXPECT_THAT(words, Not(Contains("--pipeline-model-parallel-layout")));
    }
  }
};

TEST_P(EngineLaunchersTest, StartsEveryProcessAsThePlanSays) {
  int run = 0;
  for (const LauncherCase& launcher_case : LauncherCases()) {
    if (launcher_case.plan.world_size() > 64 || !Runs(launcher_case, GetParam())) continue;
    SCOPED_TRACE(launcher_case.name);
    const auto rendered = Rendered(launcher_case);
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    ++run;
    const std::vector<const plan::Stage*> stages = StagesOf(launcher_case.plan);
    std::map<std::string, std::string> environment = {{"HAPMOE_CONFIRM_BACKEND", "flagcx"},
                                                      {"MASTER_ADDR", "10.0.0.1"}};
    const bool own_recipe =
        absl::StrContains(rendered->artifacts.front().content, "recipe_needed=");
    if (own_recipe) environment["BRIDGE_RECIPE"] = "of_my_own";
    for (const plan::AssignedNode& node : rendered->nodes.nodes) {
      environment["NODE_RANK"] = absl::StrCat(node.node_rank);
      environment["STUB_FIRST_RANK"] = absl::StrCat(node.first_rank);
      environment["STUB_WORLD"] = absl::StrCat(launcher_case.plan.world_size());
      const Outcome outcome = Run(environment);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
      for (int64_t i = 0; i < node.processes; ++i) {
        const int64_t rank = node.first_rank + i;
        const std::vector<std::string> words = ReadWords(absl::StrCat("rank.", rank));
        ASSERT_GT(words.size(), 4u);
        if (own_recipe) {
          EXPECT_EQ(words[3], "of_my_own");
        }
        const int64_t stage = plan::StageOfRank(launcher_case.plan, rank);
        ExpectStage(launcher_case, *stages[static_cast<size_t>(stage)], words);
      }
    }
    EXPECT_TRUE(PassesShellcheck("launch.sh"));
  }
  EXPECT_GE(run, 5);
}

TEST_P(EngineLaunchersTest, LetsNoValueBeAnythingButData) {
  for (const std::string& word : HostileWords()) {
    LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
    launcher_case.argv.push_back(absl::StrCat("--wandb-exp-name=", word));
    const auto rendered = Rendered(launcher_case);
    if (!rendered.ok()) {  // Told, and nothing is written.
      EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    const Outcome outcome = Run(
        {{"NODE_RANK", "0"}, {"MASTER_ADDR", "h"}, {"STUB_FIRST_RANK", "0"}, {"STUB_WORLD", "24"}});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_TRUE(fs::is_empty(directory_ / "work")) << "a value was executed";
  }
}

// Plain text that a person reads; HAPMOE_REGENERATE_GOLDENS=1 writes it anew.
TEST_P(EngineLaunchersTest, WritesTheGoldenFiles) {
  for (const char* name : {"llama8b_two_types_3x8", "qwen05b_tied_one_stage_per_gpu_1x4"}) {
    const auto rendered = Rendered(CaseOf(name));
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    for (const Artifact& artifact : rendered->artifacts) {
      if (artifact.name == "hostfile" || artifact.name == "rankfile")
        continue;  // As Megatron-LM's.
      const std::string path = absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/engines/", GetParam(),
                                            ".", name, ".", artifact.name);
      if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) {
        std::ofstream(path, std::ios::binary) << artifact.content;
      }
      EXPECT_EQ(ReadFile(path), artifact.content) << path;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineLaunchersTest,
                         ::testing::Values(plan::kMegatronBridge, plan::kMindSpeedLlm,
                                           plan::kPrimus),
                         [](const ::testing::TestParamInfo<const char*>& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

plan::Plan OneStage() { return PlanOf({1, 1, 8, 1, 1}, 1, 64, {{0, {}, {StageOf(4)}}}, false); }

BridgeOverrides Bridge(const std::string& options) {
  auto overrides = BridgeOverridesOf(
      Parsed(SplitWords(absl::StrCat("--num-layers 4 --hidden-size 64 --bf16 ", options))),
      OneStage());
  EXPECT_TRUE(overrides.ok()) << overrides.status();
  return overrides.ok() ? *std::move(overrides) : BridgeOverrides();
}

std::string Joined(const std::vector<Words>& options) {
  return absl::StrJoin(options, " ", [](std::string* out, const Words& words) {
    absl::StrAppend(out, absl::StrJoin(words, " "));
  });
}

TEST(BridgeOverrides, SayWhatAnOptionSays) {
  const struct {
    const char* options;
    const char* override;
  } cases[] = {
      {"--swiglu",
       "model.gated_linear_unit=true model.activation_func=\"silu\" "
       "model.bias_activation_fusion=true"},
      {"--swiglu --no-bias-swiglu-fusion", "model.bias_activation_fusion=false"},
      {"--untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights=false"},
      {"--disable-bias-linear", "model.add_bias_linear=false"},
      {"--norm-epsilon 1e-6", "model.layernorm_epsilon=1e-6"},
      {"--num-experts 8 --moe-aux-loss-coeff 1e-2", "model.moe_aux_loss_coeff=1e-2"},
      {"--num-experts 8", "model.num_moe_experts=8"},
      {"--group-query-attention --num-query-groups 2", "model.num_query_groups=2"},
      {"--no-load-optim", "checkpoint.load_optim=false"},
      {"--weight-decay 0.1", "scheduler.start_weight_decay=0.1"},
      {"", "optimizer.weight_decay=0.01"},  // Megatron-LM's default, not the recipe's.
      {"--data-path 0.3 /a 0.7 /b", "dataset.data_path=[\"0.3\",\"/a\",\"0.7\",\"/b\"]"},
      {"--mock-data", "--dataset mock"},
      {"--use-distributed-optimizer",
       "optimizer.use_distributed_optimizer=true ddp.use_distributed_optimizer=true"},
      {"--lr 0.1 --lr 0.2", "optimizer.lr=0.2"},
      {"--no-check-for-nan-in-loss-and-grad", "ddp.check_for_nan_in_grad=false"},
      {"--save /a,b/c=d", "checkpoint.save=\"/a,b/c=d\""},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(Joined(Bridge(one.options).arguments.job), HasSubstr(one.override)) << one.options;
  }
  EXPECT_THAT(Joined(Bridge("--group-query-attention --lr 0.1 --lr 0.2").arguments.job),
              Not(HasSubstr("optimizer.lr=0.1")));
  EXPECT_THAT(Joined(Bridge("--num-query-groups 2").arguments.job),
              Not(HasSubstr("num_query_groups")));
}

TEST(BridgeOverrides, NameWhatTheRecipeCannotBe) {
  const struct {
    const char* options;
    const char* what;
  } cases[] = {
      {"--multi-latent-attention --kv-lora-rank 512", "multi-latent attention"},
      {"--num-experts 8 --moe-layer-freq ([0]*1+[1]*3)", "with and without experts"},
      {"--num-experts 8 --moe-layer-freq 2", "with and without experts"},
      {"--fp8-format hybrid", "--fp8-format"},
      {"--optimizer sgd", "optimizer is sgd"},
      {"--transformer-impl local", "without Transformer Engine"},
      {"--seq-length 8 --max-position-embeddings 16", "positions beyond"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(absl::StrJoin(Bridge(one.options).beyond_recipe, ";"), HasSubstr(one.what))
        << one.options;
  }
  EXPECT_THAT(Bridge("--num-experts 8 --moe-layer-freq ([1]*4) --swiglu").beyond_recipe, IsEmpty());
}

TEST(BridgeOverrides, RefuseWhatHydraWouldRead) {
  for (const char* value : {"a\"b", "a\\b", "${oc.env:HOME}", "a\nb"}) {
    const auto overrides =
        BridgeOverridesOf(Parsed({"--num-layers", "4", "--bf16", "--save", value}), OneStage());
    EXPECT_EQ(overrides.status().code(), absl::StatusCode::kInvalidArgument) << value;
    // Told before a plan is searched for.
    const Violations told = CheckEngineOptions(
        plan::kMegatronBridge, Parsed({"--num-layers", "4", "--bf16", "--save", value}));
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told.front().rule, "engine_takes_value");
  }
  EXPECT_TRUE(CheckEngineOptions(plan::kMegatronBridge,
                                 Parsed({"--num-layers", "4", "--bf16", "--save", "/a b"}))
                  .empty());
}

TEST(MindSpeedOptions, RefuseWhatItDoesNotTake) {
  const struct {
    const char* options;
    const char* rule;
  } cases[] = {
      {"--num-experts 8 --moe-layer-freq 2", "mindspeed_layer_pattern"},
      {"--num-experts 8 --moe-layer-freq ([1]*2+[0]*2)", "mindspeed_layer_pattern"},
      {"--cp-comm-type a2a+p2p", "mindspeed_context_communication"},
      {"--cpu-offloading-num-layers 2", "mindspeed_knows_option"},
  };
  for (const auto& one : cases) {
    const Violations violations = CheckMindSpeedOptions(Parsed(SplitWords(one.options)));
    ASSERT_EQ(violations.size(), 1u) << one.options;
    EXPECT_EQ(violations.front().rule, one.rule);
  }
  EXPECT_THAT(CheckMindSpeedOptions(Parsed(SplitWords(
                  "--num-experts 8 --moe-layer-freq ([0]*3+[1]*58) --cp-comm-type a2a "
                  "--pipeline-model-parallel-layout Et|tL --recompute-modules core_attn"))),
              IsEmpty());
}

TEST(MindSpeedOptions, SayWhatItCallsOtherwise) {
  const auto said = [](const std::string& options) {
    return Joined(PlanMindSpeedArguments(Parsed(SplitWords(options)), OneStage()).job);
  };
  EXPECT_THAT(said("--num-experts 8 --moe-layer-freq ([0]*3+[1]*58)"),
              HasSubstr("--first-k-dense-replace 3 --moe-layer-freq 1"));
  EXPECT_THAT(said("--tokenizer-type HuggingFaceTokenizer --tokenizer-model /tok"),
              HasSubstr("--tokenizer-type PretrainedFromHF --tokenizer-name-or-path /tok"));
  EXPECT_THAT(said("--swiglu --normalization RMSNorm --position-embedding-type rope"),
              HasSubstr("--use-fused-swiglu --use-fused-rmsnorm --use-fused-rotary-pos-emb"));
  EXPECT_THAT(said("--transformer-impl transformer_engine"),
              ::testing::AllOf(HasSubstr("--transformer-impl local"),
                               Not(HasSubstr("transformer_engine"))));
}

TEST(PrimusOptions, SetPresetsBackAndWriteYaml) {
  const auto overrides = PrimusOverridesOf(
      Parsed(SplitWords("--num-layers 4 --lr 1e-4 --min-lr 1 --weight-decay 0.1 --swiglu "
                        "--norm-epsilon 1e-6 --moe-layer-freq ([0]*1+[1]*3) --save it's "
                        "--disable-bias-linear --tensorboard-dir /t --lr 2e-4")),
      OneStage());
  ASSERT_TRUE(overrides.ok()) << overrides.status();
  const Options job(overrides->job.begin(), overrides->job.end());
  EXPECT_EQ(job.at("lr"), "2.0e-4");  // YAML reads 2e-4 as text.
  EXPECT_EQ(job.at("min_lr"), "1.0");
  EXPECT_EQ(job.at("norm_epsilon"), "1.0e-6");
  EXPECT_EQ(job.at("moe_layer_freq"), "'([0]*1+[1]*3)'");
  EXPECT_EQ(job.at("save"), "'it''s'");
  EXPECT_EQ(job.at("add_bias_linear"), "false");
  EXPECT_EQ(job.at("disable_tensorboard"), "false");
  const Options presets(overrides->presets.begin(), overrides->presets.end());
  EXPECT_EQ(presets.at("untie_embeddings_and_output_weights"), "false");
  EXPECT_EQ(presets.at("lr_decay_style"), "'linear'");
  EXPECT_EQ(presets.count("swiglu"), 0u);  // The job says so itself.
  const Options plan(overrides->plan.begin(), overrides->plan.end());
  EXPECT_EQ(plan.at("sequence_parallel"), "false");
  EXPECT_EQ(plan.at("global_batch_size"), "64");
}

TEST(PrimusOptions, RefuseWhatItWouldDropOrRead) {
  const Violations violations =
      CheckPrimusOptions(Parsed({"--cpu-offloading-num-layers", "2", "--lr", "1"}));
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations.front().rule, "primus_knows_option");
  EXPECT_EQ(PrimusOverridesOf(Parsed({"--save", "${HOME}"}), OneStage()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hapmoe::engine
