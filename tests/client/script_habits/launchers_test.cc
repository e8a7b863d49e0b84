// Launchers of training, and how many processes they start.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Launchers, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "LauncherInAVariable",
              .script = "L=\"python -m torch.distributed.run --nnodes 2 --nproc-per-node=4\"\n"
                        "$L t.py --a 1 --b",
              .world_size = 8},
        Habit{.name = "Module",
              .script = "A=(--nproc_per_node 8 --nnodes 1)\nuv run --extra ssm python -m "
                        "torch.distributed.run \"${A[@]}\" -m pkg.train \"$@\"",
              .launches = {{"-m pkg.train", "--a", "1"}},
              .arguments = {"--a", "1"},
              .world_size = 8},
        Habit{.name = "DebugpyRun",
              .script = "debugpy-run -p :5678 -m torch.distributed.run -- --nproc_per_node 2 t.py "
                        "--a 1 --b",
              .world_size = 2},
        Habit{.name = "FaultTolerance",
              .script = "ft_launcher --max-restarts=3 --nproc_per_node 8 --nnodes=4 t.py --a 1 --b",
              .world_size = 32},
        Habit{.name = "AnotherShell", .script = "sh -c 'cd /opt/M && torchrun t.py --a 1 --b'"},
        Habit{.name = "ElasticNodes",
              .script = "torchrun --nnodes 1:4 --nproc_per_node 8 t.py --a 1 --b",
              .world_size = 0},
        Habit{.name = "ProcessesAsDevices",
              .script = "torchrun --nproc_per_node gpu t.py --a 1 --b",
              .world_size = 0}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
