// Options, conditions, loops and functions: which launch is reached, and with what.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Control, ScriptHabitTest,
    ::testing::Values(
        Habit{
            .name = "OptionLoop",
            .script =
                "A=\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n    --a)\n      A=$2\n      shift 2\n"
                "      ;;\n    -h|--help)\n      exit 0\n      ;;\n    --b*) B=--b; shift ;;\n"
                "    *)\n      echo \"Unknown option: $1\"\n      exit 1\n  esac\ndone\n"
                "torchrun t.py --a $A $B",
            .arguments = {"--a", "1", "--bb"}},
        Habit{.name = "GetOptions",
              .script =
                  "while getopts 'a:b' o; do case $o in a) A=$OPTARG ;; b) B=--b ;; esac; done\n"
                  "shift $((OPTIND - 1))\ntorchrun t.py --a $A $B $1",
              .launches = {{"t.py", "--a", "1", "--b", "x"}},
              .arguments = {"-b", "-a1", "x"}},
        Habit{.name = "Tables",
              .script = "if [ $1 == 1 ]; then L=1\nelif [ $1 == 2 ]; then L=2\nelse echo "
                        "'Invalid'; exit 1\n"
                        "fi\ntorchrun t.py $L",
              .launches = {{"t.py", "2"}},
              .arguments = {"2"}},
        Habit{
            .name = "Case",
            .script = "case \"${SCALE}\" in\n  \"800M\") L=48 ;;\n  8B|\"8b\")\n    L=56\n    ;;\n"
                      "  *) echo bad; exit 1 ;;\nesac\ntorchrun t.py $L",
            .launches = {{"t.py", "56"}},
            .environment = {"SCALE=8b"}},
        Habit{.name = "ExitsWhereSomethingIsMissing",
              .script = "[[ -z $WORKSPACE ]] && { echo 'set WORKSPACE'; exit 1; }\n"
                        "if [ ! -f pretrain_gpt.py ]; then exit 1; fi\n[[ -d conf ]] || exit 1\n"
                        "torchrun t.py $WORKSPACE",
              .launches = {{"t.py", "/w"}},
              .environment = {"WORKSPACE=/w"},
              .files = {{"pretrain_gpt.py", ""}, {"conf/x", ""}}},
        Habit{.name = "ConditionalFlags",
              .script = "if [ -n \"${KEY}\" ]; then A+=(--wandb-project ${P:-\"Mixtral\"}); fi\n"
                        "[[ $FP8 == true ]] && A+=(--fp8)\ntest \"$X\" != None -a -n \"$X\" && "
                        "A+=(--x $X)\n"
                        "torchrun t.py \"${A[@]}\"",
              .launches = {{"t.py", "--wandb-project", "Mixtral", "--x", "y"}},
              .environment = {"KEY=k", "X=y"}},
        Habit{.name = "DebugSwitch",
              .script =
                  "DEBUG=0\nif [[ $DEBUG -eq 1 ]]; then BZ=1; else BZ=128; fi\n"
                  "if [[ $BATCH -eq 0 ]]; then\n  torchrun --nproc_per_node 8 t.py $BZ\nelse\n"
                  "  run_cmd=\"python -u t.py $BZ\"\n  srun -l --verbose sh -c \"${run_cmd}\"\nfi",
              .launches = {{"t.py", "128"}},
              .world_size = 8},
        Habit{
            .name = "Sweep",
            .script = "for c in \"2,1\" \"4,2\"; do\n  IFS=',' read -r TP CP <<< \"$c\"\n"
                      "  for pack in True False; do\n    torchrun t.py --tp $TP --cp ${CP} $pack\n"
                      "  done\ndone",
            .launches = {{"t.py", "--tp", "2", "--cp", "1", "True"},
                         {"t.py", "--tp", "2", "--cp", "1", "False"},
                         {"t.py", "--tp", "4", "--cp", "2", "True"},
                         {"t.py", "--tp", "4", "--cp", "2", "False"}}},
        Habit{.name = "CountedLoops",
              .script = "for ((i = 0; i < 4; i++)); do ((i == 2)) && continue; A+=($i); done\n"
                        "n=1; until [ $n -ge 8 ]; do n=$((n * 2)); [ $n = 4 ] && break; done\n"
                        "torchrun t.py ${A[@]} $n",
              .launches = {{"t.py", "0", "1", "3", "4"}}},
        Habit{.name = "Functions",
              .script =
                  "add() { local flag=$1; [ -n \"$2\" ] || return 1; A=\"$A $flag $2\"; }\n"
                  "function launch {\n  torchrun t.py $A \"$@\"\n}\nadd --a 1\nadd --c '' || true\n"
                  "launch --b\necho $flag"},
        Habit{.name = "StrictShell",
              .script = "set -euo pipefail\nexport X=${X:-}\nmkdir -p /ckpt/x\n"
                        "trap 'echo done' EXIT\n[[ -n $X ]] && echo set\ntorchrun t.py --a $1 --b",
              .arguments = {"1"}},
        Habit{.name = "ErrorsEndAStrictShell",
              .script = "set -e\nfalse || torchrun t.py 1\nfalse\ntorchrun t.py 2",
              .launches = {{"t.py", "1"}}},
        Habit{.name = "ReadLines",
              .script = "while read -r k v; do\n  [[ $k == \\#* ]] && continue\n  A+=(--$k $v)\n"
                        "done < job.args\ntorchrun t.py \"${A[@]}\"",
              .files = {{"job.args", "# sizes\na 1\nb\n"}}},
        Habit{.name = "ReadDocument",
              .script = "read -r -d '' A <<'EOF'\n--a 1\n--b $x\nEOF\ntorchrun t.py $A",
              .launches = {{"t.py", "--a", "1", "--b", "$x"}}},
        Habit{.name = "MapFile",
              .script = "mapfile -t A < job.args\ntorchrun t.py \"${A[@]}\"",
              .launches = {{"t.py", "--a 1", "--b"}},
              .files = {{"job.args", "--a 1\n--b\n"}}},
        Habit{.name = "Evaluated",
              .script = "A='--a 1'\ncmd=\"torchrun t.py $A --b\"\necho $cmd\neval $cmd"},
        Habit{.name = "Regular",
              .script = "[[ $1 =~ ^([0-9]+)b$ ]] || exit 1\ntorchrun t.py ${BASH_REMATCH[1]}",
              .launches = {{"t.py", "70"}},
              .arguments = {"70b"}}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
