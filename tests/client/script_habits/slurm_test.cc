// srun and sbatch.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Slurm, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "Srun",
              .script = "srun -N 2 --container-image x bash -c \"torchrun t.py --a 1 --b\""},
        Habit{.name = "SrunOfAnotherShell",
              .script = "srun -N 2 sh -c \"cd /workspace/M && torchrun t.py --a 1 --b\""},
        Habit{.name = "SrunTasks",
              .script = "srun --mpi=none -n 16 python -u t.py --a 1 --b",
              .world_size = 16},
        Habit{.name = "SrunTasksOnEachNode",
              .script = "srun --nodes=4 --ntasks-per-node 8 python -u t.py --a 1 --b",
              .world_size = 32},
        Habit{.name = "SrunCommand",
              .script = "srun -N 2 \"cd /x; python t.py --a 1 --b\"",
              .world_size = 2},
        Habit{.name = "SbatchHereDocument",
              .script =
                  "CMD=\"python t.py --a $1 --b\"\nsbatch -N 2 <<EOF\n#!/bin/bash\n"
                  "#SBATCH --ntasks-per-node=8\nexport NCCL_X=1\nsrun --container-image=i bash -c "
                  "\"${CMD}\"\nEOF",
              .arguments = {"1"},
              .world_size = 16},
        Habit{
            .name = "SbatchFile",
            .script = "sbatch --nodes 2 inner.sh --a 1 --b",
            .files = {{"inner.sh",
                       "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=gpu:4\n"
                       "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_PER_NODE "
                       "t.py \"$@\"\n"}},
            .world_size = 8},
        Habit{.name = "SbatchWrap", .script = "sbatch --wrap='torchrun t.py --a 1 --b'"},
        Habit{
            .name = "BatchScript",
            .script =
                "#!/bin/bash\n#SBATCH -N 4  # nodes\n#SBATCH --job-name=x\n\n"
                "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                "CMD=\"torchrun --nproc_per_node=8 --nnodes=$SLURM_NNODES "
                "--node_rank=\\$SLURM_PROCID --master_addr $MASTER_ADDR\"\nCMD=\"$CMD t.py --a "
                "1\"\n"
                "SRUN_CMD=\"srun --mpi=pmix\"\nfor m in ${MOUNTS:-/a /b}; do SRUN_CMD=\"$SRUN_CMD "
                "--mount=$m\"; done\n$SRUN_CMD bash -c \"$CMD --b\"",
            .world_size = 32}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
