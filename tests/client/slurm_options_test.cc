#include "client/slurm_options.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(SlurmOptionsTest, DirectivesComeBeforeTheFirstCommand) {
  EXPECT_THAT(BatchDirectives("#!/bin/bash\n#SBATCH -N 4 --ntasks=8  # nodes\n\n# x\n"
                              "#SBATCH --job-name=x\r\necho\n#SBATCH -N 8\n"),
              ElementsAre("-N", "4", "--ntasks=8", "--job-name=x"));
  EXPECT_THAT(BatchDirectives("##SBATCH -N 4\necho\n"), IsEmpty());
}

TEST(SlurmOptionsTest, VariablesAreThoseOfTheLastOption) {
  EXPECT_THAT(
      SlurmVariables(std::vector<std::string>{"-N2", "--nodes", "4-8", "--ntasks-per-node=8",
                                              "--gpus-per-node=gpu:a100:4", "-J", "x"}),
      AllOf(Contains(Pair("SLURM_NNODES", "4")), Contains(Pair("SLURM_JOB_NUM_NODES", "4")),
            Contains(Pair("SLURM_NTASKS_PER_NODE", "8")),
            Contains(Pair("SLURM_GPUS_PER_NODE", "4")), Contains(Pair("SLURM_JOB_NAME", "x")),
            Contains(Pair("SLURM_PROCID", "0")), Not(Contains(Key("SLURM_NTASKS")))));
}

TEST(SlurmOptionsTest, TasksAreGivenOrCounted) {
  EXPECT_EQ(SlurmTasks({{"SLURM_NTASKS", "6"}, {"SLURM_NNODES", "4"}}), 6);
  EXPECT_EQ(SlurmTasks({{"SLURM_NNODES", "4"}, {"SLURM_NTASKS_PER_NODE", "8"}}), 32);
  EXPECT_EQ(SlurmTasks({{"SLURM_NNODES", "4"}}), 4);  // One on each, as srun does.
  EXPECT_EQ(SlurmTasks({{"SLURM_NTASKS_PER_NODE", "8"}}), 0);
  EXPECT_EQ(SlurmTasks({{"SLURM_NNODES", "<n>"}}), 0);
}

}  // namespace
}  // namespace hapmoe::client
