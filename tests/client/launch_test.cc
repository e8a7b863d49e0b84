#include "client/launch.h"

#include <map>
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

struct World {
  const char* program;
  const char* words;
  std::map<std::string, std::string> environment;
  int64_t size;  // 0 where it does not say.
};

TEST(WorldSizeTest, IsWhatTheLaunchSays) {
  for (const World& world : std::vector<World>{
           {"torchrun", "--nnodes 4 --nproc_per_node=8 t.py", {}, 32},
           {"torchrun", "--nproc-per-node 8 t.py --nnodes 9", {}, 8},
           {"torchrun", "t.py", {}, 1},
           {"torchrun", "t.py", {{"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "4"}}, 8},
           {"torchrun", "--nnodes 1:4 --nproc_per_node 8 t.py", {}, 0},
           {"torchrun", "--nnodes 2:2 --nproc_per_node 8 t.py", {}, 16},
           {"torchrun", "--nproc_per_node gpu t.py", {{"SLURM_NTASKS", "4"}}, 0},
           {"torchrun", "--nnodes 999999999999 --nproc_per_node 8 t.py", {}, 0},
           {"python", "-m torch.distributed.run --nnodes 2 --nproc_per_node 8 t.py", {}, 16},
           {"debugpy-run", "-p :1 -m torch.distributed.run -- --nproc_per_node 2 t.py", {}, 2},
           {"python", "t.py", {{"SLURM_NTASKS", "64"}, {"SLURM_STEP_NUM_TASKS", "8"}}, 8},
           {"python", "t.py", {{"WORLD_SIZE", "16"}}, 16},
           {"python", "t.py", {{"OMPI_COMM_WORLD_SIZE", "8"}}, 8},
           {"python", "t.py", {}, 0},
           {"accelerate", "launch --num_processes 8 t.py", {}, 8},
           {"deepspeed", "--num_nodes 2 --num_gpus 8 t.py", {}, 16},
           {"deepspeed", "--num_gpus 8 t.py", {}, 0}}) {
    const std::vector<std::string> words = absl::StrSplit(world.words, ' ');
    EXPECT_EQ(WorldSize(TakeApart(world.program, words), world.environment).value_or(0), world.size)
        << world.program << " " << world.words;
  }
}

TEST(LaunchJsonTest, HasAllFieldsInOrder) {
  const std::vector<std::string> words = {"--nnodes", "2", "t.py", "--a", "x \"y\""};
  Launch launch = TakeApart("torchrun", words);
  EXPECT_EQ(LaunchJson(launch, ""),
            "{\"program\": \"torchrun\", \"launcher_args\": [\"--nnodes\", \"2\"], \"entry\": "
            "\"t.py\", \"args\": [\"--a\", \"x \\\"y\\\"\"], \"env\": {}, \"world_size\": null, "
            "\"refusal\": null}");
  launch.world_size = 16;
  launch.environment["NCCL_X"] = "1";
  EXPECT_THAT(LaunchJson(launch, "no"),
              ::testing::EndsWith("\"env\": {\"NCCL_X\": \"1\"}, \"world_size\": 16, "
                                  "\"refusal\": \"no\"}"));
}

}  // namespace
}  // namespace hapmoe::client
