#include "client/flagscale_file.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class FlagScaleFileTest : public ::testing::Test {
 protected:
  // The arguments, or the refusal as the only one.
  std::vector<std::string> Read(const std::string& text) const {
    const absl::StatusOr<ScriptRun> run = ReadFlagScaleFile(root_.Write("x.yaml", text));
    if (!run.ok()) return {std::string(run.status().message())};
    return run->launches[0].arguments;
  }

  JobDirectory root_;
};

TEST_F(FlagScaleFileTest, SectionsAreFlattened) {
  EXPECT_THAT(Read("system:\n  tensor_model_parallel_size: 2\n  precision:\n    bf16: true\n"
                   "    fp16: False\n  logging: {log_interval: 1}\n"
                   "model:\n  norm_epsilon: 1e-05\n  init_method_std: 2.0e-2\n  lr: 1e16\n"
                   "  name: \"1e-05\"\n  x: 1.0\n  list: [1, a, 0.5]\n  nothing: null\n"
                   "data:\n  split: 1\n  log_dir: /x\n"),
              ElementsAre("--tensor-model-parallel-size", "2", "--bf16", "--log-interval", "1",
                          "--norm-epsilon", "1e-05", "--init-method-std", "0.02", "--lr", "1e+16",
                          "--name", "1e-05", "--x", "1.0", "--list", "1", "a", "0.5", "--nothing",
                          "None", "--split", "1"));
}

TEST_F(FlagScaleFileTest, LaterSectionsReplaceKeysWhereTheyStand) {
  EXPECT_THAT(Read("system: {a: 1, s: {x: 1}, b: 2}\nmodel: {s: {y: 2}}\ndata: {a: 3}\n"),
              ElementsAre("--a", "3", "--y", "2", "--b", "2"));
}

TEST_F(FlagScaleFileTest, AnExperimentNamesItsTrainFile) {
  root_.Write(
      "train/8x7b.yaml",
      "system: {no_shared_fs: \"${experiment.runner.no_shared_fs}\", w: \"p/${experiment.n}\"}\n"
      "model: {num_layers: 32}\ndata: {split: \"${experiment.seed}\"}\n");
  const absl::StatusOr<ScriptRun> run = ReadFlagScaleFile(
      root_.Write("train.yaml",
                  "defaults:\n  - _self_\n  - train: 8x7b\nexperiment:\n  n: x\n  seed: 42\n"
                  "  task: {type: train, backend: megatron, entrypoint: a/train_gpt.py}\n"
                  "  runner: {nnodes: 2, nproc_per_node: 8, no_shared_fs: true}\n"
                  "  envs: {CUDA_DEVICE_MAX_CONNECTIONS: 1, SECRET: x}\n"));
  ASSERT_TRUE(run.ok()) << run.status();
  const Launch& launch = run->launches[0];
  EXPECT_EQ(launch.program, "flagscale");
  EXPECT_EQ(launch.entry, "a/train_gpt.py");
  EXPECT_EQ(launch.world_size, 16);
  EXPECT_THAT(launch.environment, ElementsAre(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "1")));
  EXPECT_THAT(launch.arguments,
              ElementsAre("--no-shared-fs", "--w", "p/x", "--num-layers", "32", "--split", "42"));
}

TEST_F(FlagScaleFileTest, WhatIsNotReadExactlyIsRefused) {
  const std::string rest = "model: {}\ndata: {}\n";
  EXPECT_THAT(Read("system:\n  hetero:\n    enable_hetero: True\n" + rest),
              ElementsAre(HasSubstr("x.yaml:3: its heterogeneous layout is what hapmoe decides")));
  EXPECT_THAT(Read("system: {a: \"${experiment.x}\"}\n" + rest),
              ElementsAre(HasSubstr("x.yaml:1: ${experiment.x} is not in")));
  EXPECT_THAT(Read("system: {a: \"${oc.env:HOME}\"}\n" + rest), ElementsAre(HasSubstr("not read")));
  EXPECT_THAT(Read("system: {a: [[1, 2]]}\n" + rest),
              ElementsAre(HasSubstr("a list in a list is not read")));
  EXPECT_THAT(Read("system: {a: 010}\n" + rest), ElementsAre(HasSubstr("octal")));
  EXPECT_THAT(Read("system:\n  b: {a: 1}\n  c:\n  - d: {a: 1,\n      a: 2}\n" + rest),
              ElementsAre(HasSubstr("x.yaml:5: a map has the key a twice")));
  EXPECT_THAT(Read("system: {}\ndata: {}\ntrain: 1\n"), ElementsAre(HasSubstr("model is missing")));
  EXPECT_THAT(Read("a: 1\n"), ElementsAre(HasSubstr("neither a train YAML")));
  EXPECT_THAT(Read("experiment: {task: {backend: vllm}}\nsystem: {}\n" + rest),
              ElementsAre(HasSubstr("only tasks of the megatron backend")));
  EXPECT_THAT(Read("system: {x: \"${system.x}\"}\n" + rest),
              ElementsAre(HasSubstr("nested too deep")));
  EXPECT_THAT(Read("defaults: [{train: ../../etc/x}]\n"), ElementsAre(HasSubstr("not read")));
}

TEST(FlagScaleOnlyTest, IsTakenOutWithItsValues) {
  std::vector<std::string> arguments = {
      "--no-shared-fs",   "--num-layers",     "2", "--tokenizer-path", "x", "--lr",
      "--tokenizer-type", "AquilaTokenizerFS"};
  EXPECT_THAT(TakeFlagScaleOnly(arguments), ElementsAre("--no-shared-fs", "--tokenizer-path", "x",
                                                        "--tokenizer-type", "AquilaTokenizerFS"));
  EXPECT_THAT(arguments, ElementsAre("--num-layers", "2", "--lr"));
  arguments = {"--tokenizer-type", "NullTokenizer"};
  EXPECT_THAT(TakeFlagScaleOnly(arguments), ElementsAre());
}

}  // namespace
}  // namespace hapmoe::client
