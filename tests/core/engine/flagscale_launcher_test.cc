// FlagScale's files for plans made by hand, against tests/golden/flagscale.
// HAPMOE_REGENERATE_GOLDENS=1 writes the golden files instead.
#include "core/engine/flagscale_launcher.h"

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/engine/flagscale_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"

namespace hapmoe::engine {
namespace {

using plan::Degrees;
using plan::Mesh;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTraining[] =
    " --train-iters 500 --lr 1e-4 --mock-data --bf16 --use-distributed-optimizer --swiglu "
    "--disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
    "--tokenizer-type NullTokenizer --vocab-size 32000 --save /ckpt --save-interval 100 "
    "--log-interval 1 --log-params-norm --ckpt-format torch_dist --split 99,1,0";

PoolEnvironment Nvidia() {
  PoolEnvironment environment;
  environment.variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  environment.visible_devices = "CUDA_VISIBLE_DEVICES";
  return environment;
}

PoolEnvironment Ascend() {
  PoolEnvironment environment;
  environment.variables = {{"HCCL_CONNECT_TIMEOUT", "1800"}};
  environment.visible_devices = "ASCEND_RT_VISIBLE_DEVICES";
  return environment;
}

// A plan of FlagScale; PlanOf numbers the layers.
plan::Plan FlagScalePlan(int64_t micro_batch, int64_t global_batch, std::vector<Mesh> meshes) {
  const Degrees first = meshes.front().degrees;
  std::vector<Degrees> degrees;
  for (const Mesh& mesh : meshes) degrees.push_back(mesh.degrees);
  plan::Plan plan = PlanOf(first, micro_batch, global_batch, std::move(meshes), true);
  for (size_t i = 0; i < degrees.size(); ++i) plan.meshes[i].degrees = degrees[i];
  plan.engine = plan::kFlagScale;
  return plan;
}

// Three stages: two types, tp 2 against 4; the slower type recomputes 3 layers.
LauncherCase Dense() {
  return {"llama_two_types_3x8",
          SplitWords(absl::StrCat("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
                                  "--num-attention-heads 32 --group-query-attention "
                                  "--num-query-groups 8 --seq-length 4096 "
                                  "--max-position-embeddings 4096 "
                                  "--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                  "--global-batch-size 64 --tensor-model-parallel-size 8",
                                  kTraining)),
          {{PoolOf("H800", 2), PoolOf("A100", 1)}, {}},
          FlagScalePlan(1, 64,
                        {{0, {2, 1, 4, 1, 2}, {StageOf(13), StageOf(12)}},
                         {1, {4, 1, 2, 1, 4}, {StageOf(7, FullBlock(3))}}}),
          {Nvidia(), Nvidia()}};
}

// Experts, two vendors, and a pipeline that comes back to its first pool.
LauncherCase Experts() {
  return {"mixtral_there_and_back_3x8",
          SplitWords(absl::StrCat("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
                                  "--num-attention-heads 32 --seq-length 4096 "
                                  "--max-position-embeddings 4096 --num-experts 8 "
                                  "--moe-router-topk 2 --moe-grouped-gemm "
                                  "--moe-token-dispatcher-type alltoall "
                                  "--untie-embeddings-and-output-weights --micro-batch-size 2 "
                                  "--global-batch-size 64",
                                  kTraining)),
          {{PoolOf("h800", 2), PoolOf("ascend", 1)}, {}},
          FlagScalePlan(2, 64,
                        {{0, {2, 1, 4, 4, 1}, {StageOf(13)}},
                         {1, {1, 1, 8, 8, 1}, {StageOf(7)}},
                         {0, {4, 1, 2, 8, 1}, {StageOf(12)}}}),
          {Nvidia(), Ascend()},
          {{"flagcx", "FlagCX built for NCCL and HCCL"}}};
}

// The ends share their embedding and have the same degrees.
LauncherCase Tied() {
  return {
      "gpt_tied_2x4",
      SplitWords(absl::StrCat("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
                              "--seq-length 1024 --max-position-embeddings 1024 "
                              "--micro-batch-size 4 --global-batch-size 32",
                              kTraining)),
      {{PoolOf("h800", 1, 4), PoolOf("a100", 1, 4)}, {}},
      FlagScalePlan(2, 32,
                    {{0, {1, 1, 2, 1, 1}, {StageOf(8, FullBlock(2)), StageOf(7, FullBlock(2))}},
                     {1, {1, 1, 2, 1, 1}, {StageOf(5, FullBlock(2)), StageOf(4, FullBlock(2))}}}),
      {Nvidia(), Nvidia()}};
}

absl::StatusOr<std::map<std::string, std::string>> FilesOf(const LauncherCase& one,
                                                           const std::string& backend = "nccl") {
  Violations violations;
  const Arguments arguments = Arguments::Parse(one.argv, violations);
  if (!violations.empty()) return absl::InternalError(violations.front().message);
  const auto nodes = plan::AssignNodes(one.plan, one.cluster);
  if (!nodes.ok()) return nodes.status();
  const auto artifacts =
      RenderFlagScaleLauncher({arguments, one.plan, one.cluster, *nodes, one.entry,
                               one.environments, one.requirements, backend});
  if (!artifacts.ok()) return artifacts.status();
  std::map<std::string, std::string> files;
  for (const Artifact& artifact : *artifacts) {
    EXPECT_TRUE(files.emplace(artifact.name, artifact.content).second);
    EXPECT_EQ(artifact.executable, artifact.name == "launch.sh");
  }
  return files;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

class FlagScaleGoldenTest : public ::testing::TestWithParam<LauncherCase> {};

TEST_P(FlagScaleGoldenTest, IsAsReviewed) {
  const auto files = FilesOf(GetParam(), GetParam().requirements.empty() ? "nccl" : "flagcx");
  ASSERT_TRUE(files.ok()) << files.status();
  for (const auto& [name, content] : *files) {
    const std::string path =
        absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/flagscale/", GetParam().name, ".",
                     absl::StrReplaceAll(name, {{"/", "_"}}));
    if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) {
      std::ofstream(path, std::ios::binary) << content;
    }
    EXPECT_EQ(ReadFile(path), content) << path << ": HAPMOE_REGENERATE_GOLDENS=1 writes it anew";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FlagScaleGoldenTest, ::testing::Values(Dense(), Experts(), Tied()),
                         [](const auto& test) { return test.param.name; });

TEST(FlagScaleLauncher, DescribesEveryStageAsAMesh) {
  const auto files = FilesOf(Dense());
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string& job = files->at("train/job.yaml");
  // [tp, cp, ep, dp, pp] of three stages; 13 + 12 + 7 = 32 layers.
  EXPECT_THAT(job, HasSubstr("hetero_process_meshes: [2, 1, 1, 4, 1,  2, 1, 1, 4, 1,  "
                             "4, 1, 1, 2, 1]\n"));
  EXPECT_THAT(job, HasSubstr("hetero_pipeline_layer_split: [13, 12, 7]\n"));
  EXPECT_THAT(job, HasSubstr("hetero_device_types: ['H800', 'H800', 'A100']\n"));
  EXPECT_THAT(job, HasSubstr("\n  pipeline_model_parallel_size: 3\n"));
  EXPECT_THAT(job, HasSubstr("\n  tensor_model_parallel_size: 2\n"));
  EXPECT_THAT(job, HasSubstr("\n  sequence_parallel: true\n"));
  EXPECT_THAT(job, HasSubstr("\n    ckpt_format: torch\n"));
  EXPECT_THAT(job, Not(HasSubstr("torch_dist")));
  EXPECT_THAT(job, Not(HasSubstr("log_params_norm")));
  EXPECT_THAT(job, Not(HasSubstr("expert_tensor_parallel")));
  // 64 / (1 x 4) = 16 micro-batches; only the last stage recomputes.
  EXPECT_THAT(job, HasSubstr("recompute_granularity_per_stage_micro_batch: [[2, 16, 0], "
                             "[1, 16, 1]]\n"));
  EXPECT_THAT(job, HasSubstr("recompute_method_per_stage_micro_batch: [[2, 16, 1], [1, 16, 1]]\n"));
  EXPECT_THAT(job,
              HasSubstr("recompute_num_layers_per_stage_micro_batch: [[2, 16, 0], [1, 16, 3]]\n"));
  EXPECT_THAT(files->at("hostfile"), HasSubstr("H800-0 slots=8 type=H800\nH800-1 slots=8 "
                                               "type=H800\nA100-0 slots=8 type=A100\n"));
}

TEST(FlagScaleLauncher, WritesTheDispatcherThatThePlanChose) {
  LauncherCase one = Experts();
  const auto job = [&] {
    const auto files = FilesOf(one, "flagcx");
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? files->at("train/job.yaml") : "";
  };
  const std::string own = job();
  EXPECT_THAT(own, HasSubstr("moe_token_dispatcher_type: 'alltoall'\n"));
  one.plan.dispatcher = model::Dispatcher::kAllToAll;
  EXPECT_EQ(job(), own);
  one.plan.dispatcher = model::Dispatcher::kFlex;
  EXPECT_THAT(
      job(), AllOf(HasSubstr("\n  moe_token_dispatcher_type: flex\n"), Not(HasSubstr("alltoall"))));
}

TEST(FlagScaleLauncher, NamesARecurringPoolByItsRuns) {
  const auto files = FilesOf(Experts(), "flagcx");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->at("hostfile"),
              HasSubstr("h800-0 slots=8 type=h800_s0\nascend-0 slots=8 type=ascend\n"
                        "h800-1 slots=8 type=h800_s2\n"));
  EXPECT_THAT(files->at("train/job.yaml"),
              AllOf(HasSubstr("hetero_device_types: ['h800_s0', 'ascend', 'h800_s2']\n"),
                    HasSubstr("expert_tensor_parallel_size_per_process_mesh: [1, 1, 1]\n"),
                    HasSubstr("distributed_backend: flagcx\n")));
  EXPECT_THAT(files->at("experiment.yaml"),
              HasSubstr("      'ascend':\n        ASCEND_RT_VISIBLE_DEVICES: '0,1,2,3,4,5,6,7'\n"
                        "        HCCL_CONNECT_TIMEOUT: '1800'\n"));
  EXPECT_THAT(files->at("launch.sh"), HasSubstr("backend='flagcx'"));
}

TEST(FlagScaleLauncher, KeepsAliasesApartWhateverPoolsAreCalled) {
  cluster::Cluster cluster;
  for (const char* name : {"a b", "a_b", "-x"}) cluster.pools.push_back(PoolOf(name, 2, 1));
  plan::Plan plan;
  for (const int64_t pool : {0, 1, 2, 0}) plan.meshes.push_back({pool, {}, {StageOf(1)}});
  EXPECT_THAT(FlagScaleDeviceTypes(plan, cluster),
              ElementsAre("a_b_s0", "a_b", "pool-x", "a_b_s3"));
  plan.meshes.pop_back();
  EXPECT_THAT(FlagScaleDeviceTypes(plan, cluster), ElementsAre("a_b", "a_b_", "pool-x"));
}

TEST(FlagScaleLauncher, RecomputesEverywhereWithoutLists) {
  const auto files = FilesOf(Tied());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->at("train/job.yaml"),
              AllOf(HasSubstr("recompute_granularity: full\n  recompute_method: block\n  "
                              "recompute_num_layers: 2\n"),
                    Not(HasSubstr("per_stage_micro_batch")), Not(HasSubstr("sequence_parallel")),
                    HasSubstr("\n  micro_batch_size: 2\n")));
}

TEST(FlagScaleLauncher, RefusesWhatItsScriptsWouldRead) {
  for (const char* value : {"a$(id)", "a`id`", "a\"b", "a'b", "a\\b", "a\nb", "???", "${x}"}) {
    LauncherCase one = Dense();
    one.argv.insert(one.argv.end(), {"--wandb-exp-name", value});
    EXPECT_EQ(FilesOf(one).status().code(), absl::StatusCode::kInvalidArgument) << value;
  }
  for (const char* value : {"/a b", "/a;id", "/a&"}) {  // Written into scripts without quotes.
    LauncherCase one = Dense();
    one.argv.insert(one.argv.end(), {"--load", value});
    EXPECT_EQ(FilesOf(one).status().code(), absl::StatusCode::kInvalidArgument) << value;
  }
  for (const char* host : {"a;id", "-oProxyCommand=id", "a$b", "#a"}) {
    LauncherCase one = Dense();
    one.cluster.pools[1].hosts = {host};
    EXPECT_EQ(FilesOf(one).status().code(), absl::StatusCode::kInvalidArgument) << host;
  }
  LauncherCase one = Dense();
  one.argv.insert(one.argv.end(), {"--wandb-exp-name", "a b; #c [d] 50%"});
  const auto files = FilesOf(one);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->at("train/job.yaml"), HasSubstr("wandb_exp_name: 'a b; #c [d] 50%'\n"));
}

TEST(FlagScaleLauncher, RefusesValuesThatLookLikeOptions) {
  LauncherCase one = Dense();
  one.argv.push_back("--wandb-exp-name=--lr");
  EXPECT_THAT(FilesOf(one).status().ToString(), HasSubstr("dash"));
  one = Dense();
  one.argv.insert(one.argv.end(), {"--init-method-std", "-1"});  // argparse takes it for a value.
  EXPECT_TRUE(FilesOf(one).ok());
}

TEST(FlagScaleLauncher, RefusesPlansThatHangOrAreNotRun) {
  const auto broken = [](auto change) {
    LauncherCase one = Dense();
    change(one.plan);
    return FilesOf(one).status().ToString();
  };
  EXPECT_THAT(broken([](plan::Plan& p) { p.sequence_parallel = false; }),
              HasSubstr("sequence parallelism"));
  EXPECT_THAT(broken([](plan::Plan& p) {
                p.meshes[1].degrees = {2, 2, 2, 1, 2};
              }),
              HasSubstr("context"));
  EXPECT_THAT(broken([](plan::Plan& p) {
                p.meshes[1].degrees = {1, 1, 8, 1, 1};
              }),
              HasSubstr("samples"));
  EXPECT_THAT(broken([](plan::Plan& p) {
                p.meshes[1].stages[0].recompute = Selective(model::kRecomputeCoreAttention);
              }),
              HasSubstr("whole layers"));
  EXPECT_THAT(broken([](plan::Plan& p) { p.meshes[0].stages[0].chunks.resize(2); }),
              HasSubstr("virtual stages"));
}

// launch.sh of a case in a folder with a FlagScale that prints what it is asked.
class FlagScaleScript : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "flagscaleXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    std::filesystem::create_directories(directory_ / "tree");
    // A script of bash, so that the test needs no Python.
    std::ofstream(directory_ / "tree" / "run.py") << "printf '%s\\n' \"$@\"\n";
    Write(Experts());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const LauncherCase& one) {
    const auto files = FilesOf(one, "flagcx");
    ASSERT_TRUE(files.ok()) << files.status();
    std::ofstream(directory_ / "launch.sh") << files->at("launch.sh");
  }

  // Exit status, and the lines of both streams.
  std::pair<int, std::string> Run(const std::string& arguments, const std::string& variables = "") {
    const std::string output = (directory_ / "output").string();
    const int status =
        std::system(absl::StrCat("env -u FLAGSCALE_HOME -u HAPMOE_CONFIRM_BACKEND PYTHON=bash ",
                                 variables, " bash ", (directory_ / "launch.sh").string(), " ",
                                 arguments, " >", output, " 2>&1")
                        .c_str());
    return {status == 0 ? 0 : 1, ReadFile(output)};
  }
  std::string Tree() const { return absl::StrCat("--flagscale ", (directory_ / "tree").string()); }

  std::filesystem::path directory_;
};

TEST_F(FlagScaleScript, StartsNothingUnlessAsked) {
  const auto [status, text] = Run(Tree());
  EXPECT_EQ(status, 0) << text;
  const std::string here = directory_.string();
  EXPECT_THAT(text, HasSubstr(absl::StrCat(
                        "--config-path\n", here, "\n--config-name\nexperiment\naction=dryrun\n",
                        "experiment.exp_dir=", here, "\nexperiment.runner.hostfile=", here,
                        "/hostfile\nexperiment.runner.ssh_port=22\n",
                        "experiment.runner.master_port=29511\n")));
}

TEST_F(FlagScaleScript, StartsOnlyWithTheBackendConfirmed) {
  EXPECT_EQ(Run(absl::StrCat(Tree(), " run")).first, 1);
  EXPECT_EQ(Run(absl::StrCat(Tree(), " run"), "HAPMOE_CONFIRM_BACKEND=nccl").first, 1);
  const auto [status, text] =
      Run(absl::StrCat(Tree(), " --exp-dir /x/y run"), "HAPMOE_CONFIRM_BACKEND=flagcx");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("action=run\n"), HasSubstr("exp_dir=/x/y\n")));
  Write(Tied());  // Asks for nothing.
  EXPECT_EQ(Run(absl::StrCat(Tree(), " run")).first, 0);
}

TEST_F(FlagScaleScript, RefusesWhatItCannotRun) {
  for (const std::string& arguments :
       {std::string(), std::string("--flagscale /nonexistent"), absl::StrCat(Tree(), " fly"),
        absl::StrCat(Tree(), " --exp-dir"), absl::StrCat(Tree(), " --exp-dir '/a b'"),
        absl::StrCat(Tree(), " --exp-dir '/a$(id)'"), absl::StrCat(Tree(), " --ssh-port 0"),
        absl::StrCat(Tree(), " --master-port 70000"), absl::StrCat(Tree(), " --ssh-port 1x")}) {
    const auto [status, text] = Run(arguments);
    EXPECT_EQ(status, 1) << arguments;
    EXPECT_THAT(text, HasSubstr("launch.sh: ")) << arguments;
    EXPECT_THAT(text, Not(HasSubstr("action="))) << arguments;
  }
}

TEST_F(FlagScaleScript, PassesShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "shellcheck is not installed";
  }
  for (const LauncherCase& one : {Experts(), Tied()}) {
    Write(one);
    EXPECT_EQ(std::system(absl::StrCat("shellcheck ", (directory_ / "launch.sh").string()).c_str()),
              0);
  }
}

TEST(FlagScaleOptions, SpellsOptionsAsFlagScaleDoes) {
  const struct {
    const char* flag;
    const char* key;
  } cases[] = {
      {"--disable-bias-linear", "disable_bias_linear"},
      {"--no-rope-fusion", "no_rope_fusion"},
      // Its one spelling of 2025-09 has an underscore, which would come back as a dash.
      {"--override-opt_param-scheduler", ""},
      // Megatron-LM of 2025-09 knows one of two spellings.
      {"--disable-tp-comm-bulk-wgrad", "disable_tp_comm_bulk_wgrad"},
      {"--no-tp-comm-bulk-wgrad", "disable_tp_comm_bulk_wgrad"},
      // Newer than that.
      {"--use-mup", ""},
      {"--eval-global-batch-size", ""},
  };
  for (const auto& one : cases) {
    const MegatronOption* option = FindMegatronOption(one.flag);
    ASSERT_NE(option, nullptr) << one.flag;
    EXPECT_EQ(FlagScaleKey(*option, one.flag), one.key) << one.flag;
  }
}

TEST(FlagScaleOptions, TellsWhatIsLeftOutAndWhatIsUnknown) {
  LauncherCase one = Dense();
  for (const char* word : {"--calculate-per-token-loss", "--async-save", "--use-mup",
                           "--num-distributed-optimizer-instances", "2", "--lr", "2e-4",
                           "--use-tp-pp-dp-mapping", "--distributed-backend", "gloo"}) {
    one.argv.push_back(word);
  }
  Violations violations;
  const Arguments arguments = Arguments::Parse(one.argv, violations);
  ASSERT_THAT(violations, IsEmpty());
  std::vector<std::string> left_out;
  const JobOptions options = FlagScaleOptions(arguments, one.plan);
  for (const Withdrawn& option : options.withdrawn) left_out.push_back(option.flag);
  EXPECT_THAT(left_out,
              ElementsAre("--log-params-norm", "--ckpt-format", "--calculate-per-token-loss",
                          "--async-save", "--num-distributed-optimizer-instances"));
  std::vector<std::string> rates;
  for (const Argument* kept : options.kept) {
    EXPECT_NE(kept->option->dest, "distributed_backend");
    EXPECT_NE(kept->option->dest, "use_tp_pp_dp_mapping");
    if (kept->option->dest == "lr") rates.push_back(kept->values.front());
  }
  EXPECT_THAT(rates, ElementsAre("2e-4"));
  const Violations unknown = CheckFlagScaleOptions(arguments);
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(unknown[0].field, "--use-mup");
  EXPECT_EQ(FilesOf(one).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hapmoe::engine
