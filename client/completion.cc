#include "client/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/option_table.h"

namespace hapmoe::client {
namespace {

using command_line::AllCommands;
using command_line::AllOptions;
using command_line::CommandText;
using command_line::Option;

constexpr char kHead[] = R"BASH(# Completes hapmoe in bash: source <(hapmoe completion bash)
# shellcheck shell=bash
_hapmoe() {
  local current=${COMP_WORDS[COMP_CWORD]} before=$((COMP_CWORD - 1)) words="" own="" files=0 word
  COMPREPLY=()
  # Behind -- stand arguments of the job.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word == -- ]]; then files=1; fi
  done
  # Bash takes "=" for a word.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ ${COMP_WORDS[before]} == "=" ]]; then
    before=$((before - 1))
  fi
  if ((files == 0 && COMP_CWORD == 1)); then
    words=")BASH";

constexpr char kOfOption[] = R"BASH("
  elif ((files == 0)); then
    case ${COMP_WORDS[before]} in
)BASH";

constexpr char kOfCommand[] = R"BASH(    esac
  fi
  if ((files == 0)) && [[ -z $words ]]; then
    case ${COMP_WORDS[1]} in
)BASH";

constexpr char kTail[] = R"BASH(    esac
    if [[ -n $own ]] && ((COMP_CWORD == 2)); then
      words="$own $words"
    elif [[ -n $own && $current != -* ]]; then
      files=1
    fi
  fi
  if ((files)); then
    compopt -o default 2>/dev/null
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _hapmoe hapmoe
)BASH";

// "a|b) ": a pattern of case for these words, none of which bash reads as more than a word.
std::string Case(const std::vector<std::string>& words, const std::string& action) {
  return absl::StrCat("      ", absl::StrJoin(words, "|"), ") ", action, " ;;\n");
}

std::vector<std::string> NamesOf(const Option& option) {
  std::vector<std::string> names = {option.name};
  if (*option.short_name != 0) names.emplace_back(option.short_name);
  return names;
}

// What the option before the word wants.
std::string ValueCases() {
  std::string cases;
  std::vector<std::string> others;
  for (const Option& option : AllOptions()) {
    if (option.IsSwitch()) continue;
    const std::vector<std::string> names = NamesOf(option);
    if (*option.choices == 0) {
      others.insert(others.end(), names.begin(), names.end());
    } else {
      absl::StrAppend(&cases, Case(names, absl::StrCat("words=\"", option.choices, "\"")));
    }
  }
  // Many of these name files, and none of the others is harmed by them.
  return absl::StrCat(cases, Case(others, "files=1"));
}

// The options of a command. Its first word is one of its own; further ones may be files.
std::string CommandCases() {
  std::string cases;
  for (const CommandText& command : AllCommands()) {
    std::vector<std::string> options;
    for (const Option& option : AllOptions()) {
      if (option.BelongsTo(command.command)) options.emplace_back(option.name);
    }
    std::string action = absl::StrCat("words=\"", absl::StrJoin(options, " "), "\"");
    if (*command.words != 0) absl::StrAppend(&action, " own=\"", command.words, "\"");
    absl::StrAppend(&cases, Case({command.name}, action));
  }
  return cases;
}

std::string CommandNames() {
  return absl::StrJoin(AllCommands(), " ", [](std::string* out, const CommandText& command) {
    absl::StrAppend(out, command.name);
  });
}

}  // namespace

std::string BashCompletion() {
  return absl::StrCat(kHead, CommandNames(), kOfOption, ValueCases(), kOfCommand, CommandCases(),
                      kTail);
}

}  // namespace hapmoe::client
