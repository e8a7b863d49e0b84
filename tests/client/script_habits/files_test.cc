// Files that a script sources, runs, reads or writes, and directories of the cluster.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Files, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "Sourced",
              .script = "source $(dirname \"$0\")/args.inc\ntorchrun t.py \"${ARGS[@]}\" --b",
              .arguments = {"1"},
              .files = {{"args.inc", "ARGS=(--a $1)\n"}}},
        Habit{.name = "SourcedByBackquotes",
              .script = ". `pwd`/CONFIG.sh\ntorchrun t.py $A --b",
              .files = {{"CONFIG.sh", "A='--a 1'\n"}}},
        Habit{.name = "OwnFile",
              .script =
                  "DIR=\"$(cd \"$(dirname \"$(readlink -f \"${BASH_SOURCE[0]}\")\")\" && pwd)\"\n"
                  "cd \"$DIR\"\n. ./args.inc\ntorchrun t.py ${ARGS[@]} --b",
              .files = {{"args.inc", "ARGS=(--a 1)\n"}}},
        Habit{.name = "SourceChain",
              .script = "SCRIPT_DIR=\"$(dirname \"$(readlink -f \"$0\")\")\"\n"
                        "source \"${SCRIPT_DIR}/conf/arguments.sh\"\n"
                        "${LAUNCH_SCRIPT} t.py ${MODEL_ARGS} ${NONE}",
              .arguments = {"org/model"},
              .environment = {"TP=2", "EP=4"},
              .files = {{"conf/arguments.sh",
                         "if [ -z ${TP} ]; then TP=1; fi\nif [ -z ${LAUNCH_SCRIPT} ]; then\n"
                         "  LAUNCH_SCRIPT=\"torchrun --nproc_per_node=$((TP * EP))\"\nfi\n"
                         "source \"${SCRIPT_DIR}/conf/${1}.sh\"\n"},
                        {"conf/org/model.sh", "MODEL_ARGS=\" \\\n    --a 1 \\\n    --b \\\n\"\n"}},
              .world_size = 8},
        Habit{.name = "ConfigurationFile",
              .script = "N=1\nCONF=conf.env\nif [ -n \"$CONF\" ] && [ -f \"$CONF\" ]; then source "
                        "\"$CONF\"; "
                        "fi\nW=$(($G*$N))\nD=(\n  --nproc_per_node $G\n  --nnodes $N\n)\n"
                        "torchrun ${D[@]} t.py --pp ${W}",
              .launches = {{"t.py", "--pp", "16"}},
              .files = {{"conf.env", "G=8\nN=2\n"}},
              .world_size = 16},
        Habit{.name = "OtherScript",
              .script = "bash inner.sh --a 1 --b",
              .files = {{"inner.sh", "torchrun t.py \"$@\"\n"}}},
        Habit{.name = "OnlyExportsReachOtherScripts",
              .script = "X=1\nexport Y=2\nZ=3 bash inner.sh",
              .launches = {{"t.py", "", "2", "3"}},
              .files = {{"inner.sh", "torchrun t.py \"$X\" $Y $Z\n"}}},
        Habit{.name = "WrittenScript",
              .script = "cat > gen.sh <<EOF\n#!/bin/bash\ntorchrun t.py --a $1 \\$B\nEOF\n"
                        "export B=--b\nbash gen.sh",
              .arguments = {"1"}},
        Habit{.name = "ArgumentFile",
              .script = "torchrun t.py $(cat job.args) --b",
              .files = {{"job.args", "--a\n1\n"}}},
        Habit{.name = "Log",
              .script = "mkdir -p logs/x\ntorchrun t.py --a 1 --b 2>&1 | tee logs/x/out.txt"},
        Habit{.name = "LogThatIsThere",
              .script = "torchrun t.py --a 1 --b > train.log 2>&1",
              .files = {{"train.log", "of before"}}},
        Habit{.name = "LogWhereNothingIs",
              .script = "mkdir -p /data/logs\ntorchrun t.py --a 1 --b &> /data/logs/x"},
        Habit{
            .name = "PlacesOfTheCluster",
            .script = "set -e\ncd /workspace/Megatron-LM\n/opt/conda/bin/torchrun t.py --a 1 --b"},
        Habit{.name = "PathsOfTheCluster",
              .script = "cd /workspace/x/\ntorchrun t.py --save $PWD/ckpt",
              .launches = {{"t.py", "--save", "/workspace/x/ckpt"}}},
        Habit{.name = "AllOutputToALog",
              .script = "exec > >(tee -a run.log) 2>&1\ntorchrun t.py --a 1 --b"}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
