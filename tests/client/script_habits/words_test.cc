// Arrays, strings, expansions and substitutions: how the words of a launch are put together.
#include "gtest/gtest.h"
#include "tests/client/script_habits/habit.h"

namespace hapmoe::client {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Words, ScriptHabitTest,
    ::testing::Values(
        Habit{.name = "Arrays",
              .script = "A=(--a $1)\nA+=(--b)\ntorchrun --nnodes ${NNODES:-1} t.py ${A[@]}",
              .arguments = {"1"}},
        Habit{.name = "UnquotedArraysAreSplit",
              .script = "A=(\n\t--sizes \"0:16 2.4B:320\" # a schedule\n\t# --c 2\n\t--d\n)\n"
                        "torchrun t.py ${A[@]} --e",
              .launches = {{"t.py", "--sizes", "0:16", "2.4B:320", "--d", "--e"}}},
        Habit{
            .name = "ElementsOfTwoWords",
            .script =
                "A=(\n  \"--fp8-format hybrid\"\n  \"--split '99,1,0'\"\n)\ntorchrun t.py ${A[@]}",
            .launches = {{"t.py", "--fp8-format", "hybrid", "--split", "'99,1,0'"}}},
        Habit{.name = "QuotedArraysAreNot",
              .script = "A=(\"a b\" '' c)\ntorchrun t.py \"${A[@]}\" ${A[@]}",
              .launches = {{"t.py", "a b", "", "c", "a", "b", "c"}}},
        Habit{.name = "ArrayFromItself",
              .script =
                  "A=(--a 1)\nif [ \"${B}\" = 1 ]; then\n  A=(\n    \"${A[@]}\"\n    --b\n  )\nfi\n"
                  "torchrun t.py \"${A[@]}\"",
              .environment = {"B=1"}},
        Habit{.name = "BackslashesInAnArray",
              .script = "A=(--a 1 \\\n  --b \\\n)\ntorchrun t.py ${A[@]}"},
        Habit{.name = "ArraysOfArrays",
              .script = "A=(--a 1)\nB=(--b)\nA+=(\"${B[@]}\")\ntorchrun t.py \"${A[@]}\""},
        Habit{
            .name = "SomeOfAnArray",
            .script = "A=(x --a 1 --b y)\ntorchrun t.py \"${A[@]:1:3}\" ${#A[@]} ${A[-1]} ${!A[@]}",
            .launches = {{"t.py", "--a", "1", "--b", "5", "y", "0", "1", "2", "3", "4"}}},
        Habit{.name = "OneString",
              .script = "OPTIONS=\" \\\n --a $1 \\\n --b\"\ntorchrun t.py ${OPTIONS}",
              .arguments = {"1"}},
        Habit{.name = "EmptyExtras",
              .script = "EXTRA=\"\"\ntorchrun t.py --a 1 ${EXTRA} $NONE --b $@"},
        Habit{.name = "EmptyPositionalLosesAValue",
              .script = "torchrun t.py --global-batch-size $4 --lr $3 --b",
              .launches = {{"t.py", "--global-batch-size", "--lr", "x", "--b"}},
              .arguments = {"1", "2", "x"}},
        Habit{.name = "GluedStrings",
              .script = "m=4\nN='exp_'$m'_gbs_'\"${m}8\"\ntorchrun t.py --save ./x/$N'_'y",
              .launches = {{"t.py", "--save", "./x/exp_4_gbs_48_y"}}},
        Habit{.name = "Defaults",
              .script =
                  "torchrun t.py ${1:-\"x y\"} \"${2:-${3:-z}}\" ${A-unset} ${B:+set} ${C:=c} $C "
                  "\"${D:-}\"",
              .launches = {{"t.py", "x y", "z", "b", "set", "c", "c", ""}},
              .environment = {"A=b", "B=b"}},
        Habit{.name = "BuiltFlags",
              .script = "torchrun t.py --${PRECISION:-bf16} --${X}",
              .launches = {{"t.py", "--bf16", "--fp8"}},
              .environment = {"X=fp8"}},
        Habit{.name = "Changed",
              .script =
                  "f=/a/b/model.tar.gz\ntorchrun t.py ${f##*/} ${f%.*} ${f%%.*} ${f#/a} ${f/b/c} "
                  "${f//\\//_} ${#f} ${f:3:1} ${f^^} \"${f: -2}\"",
              .launches = {{"t.py", "model.tar.gz", "/a/b/model.tar", "/a/b/model",
                            "/b/model.tar.gz", "/a/c/model.tar.gz", "_a_b_model.tar.gz", "17", "b",
                            "/A/B/MODEL.TAR.GZ", "gz"}}},
        Habit{.name = "Patterns",
              .script = "torchrun t.py --moe-layer-freq [0]*3+[1]*58 --layout 'Et*2|(tt|)*5t|tmL' "
                        "--pattern M-M-*-M",
              .launches = {{"t.py", "--moe-layer-freq", "[0]*3+[1]*58", "--layout",
                            "Et*2|(tt|)*5t|tmL", "--pattern", "M-M-*-M"}}},
        Habit{.name = "PatternsOfFiles",
              .script = "torchrun t.py conf/*.txt [ab].x",
              .launches = {{"t.py", "conf/a.txt", "conf/b.txt", "a.x"}},
              .files = {{"conf/b.txt", ""}, {"conf/a.txt", ""}, {"conf/c.yaml", ""}, {"a.x", ""}}},
        Habit{.name = "Braces",
              .script = "torchrun t.py {1..3} x{a,b}y '{a,b}' {08..10} ${1}{c,d}",
              .launches = {{"t.py", "1", "2", "3", "xay", "xby", "{a,b}", "08", "09", "10", "zc",
                            "zd"}},
              .arguments = {"z"}},
        Habit{.name = "Arithmetic",
              .script = "a=3 b=4\n((c = a * b + 1))\nlet d=c**2\n"
                        "torchrun --nproc_per_node=$((a * b)) t.py $((c)) $d $((a > 2 ? 0x10 : 1)) "
                        "$(( (a + b) % 4 )) $((a++)) $a",
              .launches = {{"t.py", "13", "169", "16", "3", "3", "4"}},
              .world_size = 12},
        Habit{.name = "Backquotes",
              .script = "A=`echo --a``echo ' 1'`\ntorchrun t.py $A --b `true`"},
        Habit{.name = "Substitutions",
              .script = "torchrun t.py $(basename /x/y.sh .sh) \"$(dirname a/b)\" $(echo a:b | cut "
                        "-d: -f2) "
                        "$(echo \"$(printf '%03d' 7)\") $(seq -s, 3) $(echo X | tr A-Z a-z)",
              .launches = {{"t.py", "y", "a", "b", "007", "1,2,3", "x"}}},
        Habit{.name = "Quotes",
              .script = "torchrun t.py '' 'a  b' $'x\\ty' \\* \"\\$x\" \"a'b\" 'a\"b' a\\ b",
              .launches = {{"t.py", "", "a  b", "x\ty", "*", "$x", "a'b", "a\"b", "a b"}}},
        Habit{.name = "AllArguments",
              .script = "shift\ntorchrun t.py \"$@\" $# \"${@:2}\" \"$*\"",
              .launches = {{"t.py", "b c", "d", "2", "d", "b c d"}},
              .arguments = {"a", "b c", "d"}},
        Habit{.name = "EmptyListsInDefaults",
              .script = "B=()\ntorchrun t.py ${U:-\"${B[@]}\"} \"${B[@]}\" ${A[@]+\"${A[@]}\"} "
                        "\"x${B[@]}\" "
                        "\"${B[*]}\" ${1+\"$@\"}",
              .launches = {{"t.py", "x", "", "a b"}},
              .arguments = {"a b"}},
        Habit{.name = "Prefixes",
              .script = "A=(a 'b c')\ntorchrun t.py \"${A[@]/#/--}\" ${A[@]/%/_}",
              .launches = {{"t.py", "--a", "--b c", "a_", "b", "c_"}}},
        Habit{.name = "Indirect",
              .script = "A_7B=32\nS=7B\nV=A_$S\ntorchrun t.py ${!V}",
              .launches = {{"t.py", "32"}}},
        Habit{
            .name = "Maps",
            .script = "declare -A L=([7b]=32 [70b]=80)\nL[1b]=16\ntorchrun t.py ${L[70b]} ${L[$1]} "
                      "${L[x]:-none}",
            .launches = {{"t.py", "80", "16", "none"}},
            .arguments = {"1b"}}),
    HabitName);

}  // namespace
}  // namespace hapmoe::client
