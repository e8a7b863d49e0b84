#include "client/launch.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

struct Case {
  const char* name;
  const char* program;
  const char* words;  // Separated by spaces.
  const char* entry;
  const char* arguments;
};

class LaunchTest : public ::testing::TestWithParam<Case> {};

TEST_P(LaunchTest, IsTakenApart) {
  const std::vector<std::string> words = absl::StrSplit(GetParam().words, ' ', absl::SkipEmpty());
  const Launch launch = TakeApart(GetParam().program, words);
  EXPECT_EQ(launch.program, GetParam().program);
  EXPECT_EQ(launch.entry, GetParam().entry);
  const std::vector<std::string> arguments =
      absl::StrSplit(GetParam().arguments, ' ', absl::SkipEmpty());
  EXPECT_EQ(launch.arguments, arguments);
}

INSTANTIATE_TEST_SUITE_P(
    Launches, LaunchTest,
    ::testing::Values(
        Case{"Torchrun", "torchrun", "--nproc_per_node 8 --nnodes=2 pretrain_gpt.py --bf16 --lr 1",
             "pretrain_gpt.py", "--bf16 --lr 1"},
        Case{"TorchrunSwitches", "torchrun", "--standalone --no-python --nproc-per-node 8 run --a",
             "run", "--a"},
        Case{"TorchrunShortOptions", "torchrun", "-r 3 -t 3 train.py -r 3", "train.py", "-r 3"},
        Case{"TorchrunModule", "torchrun", "--nnodes 2 -m pkg.train --a", "-m pkg.train", "--a"},
        Case{"TorchrunEndOfOptions", "torchrun", "--nnodes 2 -- train.py --a", "train.py", "--a"},
        Case{"TorchrunAlone", "torchrun", "--nnodes 2", "", ""},
        Case{"Nothing", "torchrun", "", "", ""},
        Case{"Python", "python3", "-u -X dev -W ignore train.py --a -u", "train.py", "--a -u"},
        Case{"PythonRun", "python", "-m torch.distributed.run --nproc_per_node 8 train.py --a",
             "train.py", "--a"},
        Case{"PythonLaunch", "python",
             "-u -m torch.distributed.launch --use_env --nnodes 1 train.py --a", "train.py", "--a"},
        Case{"PythonModule", "python", "-m pkg.train --a", "-m pkg.train", "--a"},
        Case{"Debugpy", "debugpy-run", "-m torch.distributed.run -- --nnodes 1 t.py --a", "t.py",
             "--a"},
        Case{"Accelerate", "accelerate", "launch --num_processes 8 train.py --a", "train.py",
             "--a"},
        Case{"Deepspeed", "deepspeed", "--num_gpus 8 train.py --a b.py", "train.py", "--a b.py"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace hapmoe::client
