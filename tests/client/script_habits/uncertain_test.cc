// Where a value is known only in a run, the static reading says so, with the line.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Uncertain, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "RandomPort",
              .script = "PORT=$((6000 + RANDOM % 1))\nPORT=$((PORT - PORT + 29500))\n\n"
                        "torchrun --master_port $PORT t.py --a 1 --b",
              .uncertain = "job.sh:4: the value of --master_port depends on $RANDOM of line 1"},
        Habit{.name = "Date",
              .script = "D=`date +%Y`\ntorchrun t.py --save x_$((D > 2000))",
              .launches = {{"t.py", "--save", "x_1"}},
              .uncertain = "depends on date of line 1"},
        Habit{.name = "DateInALogName",
              .script = "mkdir -p logs-$(date +%s)-$$\nD=\"$(date)\"\necho \"$D\"\n"
                        "torchrun t.py --a 1 --b > \"log_$D.txt\""},
        Habit{.name = "Searched",
              .script = "if echo x1 | grep -q x; then torchrun t.py --a 1 --b; fi",
              .uncertain = "a condition depends on grep"},
        Habit{.name = "Xargs",
              .script = "echo --a 1 --b | xargs torchrun t.py",
              .uncertain = "what xargs starts is not followed"},
        Habit{.name = "Retries",
              .script = "until false; do torchrun t.py --a 1 --b; sleep 10; done"},
        Habit{.name = "ExtendedPattern",
              .script = "shopt -s extglob\n[[ ab == a@(b|c) ]] && torchrun t.py --a 1 --b",
              .uncertain = "extended patterns are not read"},
        Habit{.name = "Placeholders",
              .script = "DATA=<a blend>\ntorchrun t.py --a 1 --b",
              .launches = {},
              .uncertain = "job.sh:1:"}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
