// What is put around a launcher: containers, tracers, other machines, and programs that are not
// here.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Wrappers, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "UvRunsAFile", .script = "uv run --no-sync t.py --a 1 --b", .world_size = 0},
        Habit{.name = "Mpi",
              .script = "mpirun -np 8 -x NCCL_DEBUG=INFO python t.py --a 1 --b",
              .world_size = 8},
        Habit{
            .name = "Docker",
            .script =
                "docker run --gpus all -e NCCL_DEBUG=INFO --env=HCCL_X=2 image torchrun t.py --a 1 "
                "--b"},
        Habit{.name = "DockerShell",
              .script = "docker exec -it c bash -lc \"cd /w && torchrun t.py --a 1 --b\""},
        Habit{.name = "Nsys", .script = "nsys profile -o x_%p torchrun t.py --a 1 --b"},
        Habit{.name = "Numactl",
              .script = "numactl --cpunodebind=0 --membind=0 python t.py --a 1 --b",
              .world_size = 0},
        Habit{.name = "Environment",
              .script = "env X=1 timeout -k 5 5 nohup nice -n 5 torchrun t.py --a 1 --b"},
        Habit{.name = "UnknownWrapper",
              .script = "bcprun --nnodes 2 --cmd torchrun t.py --a 1 --b"},
        Habit{.name = "Exec", .script = "exec torchrun t.py --a 1 --b\ntorchrun t.py never"},
        Habit{.name = "Background", .script = "torchrun t.py --a 1 --b &\nwait"},
        Habit{.name = "BackgroundLeft", .script = "torchrun t.py --a 1 --b > log.txt 2>&1 &"},
        Habit{.name = "MissingPrograms",
              .script =
                  "set -e\nmodule load cuda\nconda activate x\nibstat\ntorchrun t.py --a 1 --b"},
        Habit{.name = "Limits",
              .script = "set -e\nulimit -l unlimited\nulimit -n 65536\ntorchrun t.py --a 1 --b"},
        Habit{
            .name = "CountedDevices",
            .script =
                "N=$(nvidia-smi -L | wc -l)\n[ $N = 8 ] && torchrun --nproc_per_node $N t.py --a 1 "
                "--b",
            .world_size = 8},
        Habit{.name = "InlinePython",
              .script = "python -c 'print(1)'\npip install x\ntorchrun t.py --a 1 --b"},
        Habit{.name = "EveryNode",
              .script = "for h in n0 n1; do ssh $h torchrun --nnodes 2 --node_rank $((r++)) t.py "
                        "--a 1 --b; "
                        "done",
              .world_size = 2}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
