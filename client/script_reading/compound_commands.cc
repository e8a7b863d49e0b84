// if, loops, case, pipelines, && and ||.
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/script_reading/expander.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/pattern.h"

namespace hapmoe::client::shell {
namespace {

// Whether a command is one that says nothing and cannot fail, so that whether it runs is the same.
bool IsIndifferent(const List& list) {
  if (list.size() != 1 || list[0].kind != Command::Kind::kSimple || list[0].words.empty() ||
      !list[0].assignments.empty()) {
    return false;
  }
  const std::vector<Part>& parts = list[0].words[0].parts;
  return parts.size() == 1 && parts[0].kind == Part::Kind::kText &&
         (parts[0].text == "true" || parts[0].text == ":" || parts[0].text == "echo" ||
          parts[0].text == "printf");
}

}  // namespace

std::optional<bool> Interpreter::Condition(Shell& shell, Flow& flow, const List& list) {
  ++shell.unchecked;
  flow = RunList(shell, list);
  --shell.unchecked;
  if (flow != Flow::kNext || failed()) return std::nullopt;
  if (shell.status.unknown >= 0) {
    FailFor(shell.status.unknown, "a condition");
    return std::nullopt;
  }
  return shell.status.code == 0;
}

Flow Interpreter::RunIf(Shell& shell, const Command& command) {
  size_t i = 0;
  for (; i + 1 < command.children.size(); i += 2) {
    Flow flow = Flow::kNext;
    const std::optional<bool> holds = Condition(shell, flow, *command.children[i]);
    if (!holds.has_value()) return failed() ? Flow::kExit : flow;
    if (*holds) return RunList(shell, *command.children[i + 1]);
  }
  shell.status = {};
  return i < command.children.size() ? RunList(shell, *command.children[i]) : Flow::kNext;
}

// Runs a loop's body; `leave` where the loop ends with it.
Flow Interpreter::RunBody(Shell& shell, const List& body, bool& leave) {
  ++shell.loops;
  Flow flow = RunList(shell, body);
  --shell.loops;
  // Break and continue are always for the innermost loop; more levels are refused.
  leave = flow == Flow::kBreak || flow == Flow::kReturn || flow == Flow::kExit;
  if (flow == Flow::kBreak || flow == Flow::kContinue) flow = Flow::kNext;
  return flow;
}

Flow Interpreter::RunWhile(Shell& shell, const Command& command) {
  ExitStatus last;
  while (true) {
    Flow flow = Flow::kNext;
    const std::optional<bool> holds = Condition(shell, flow, *command.children[0]);
    if (!holds.has_value()) return failed() ? Flow::kExit : flow;
    if (*holds == (command.kind == Command::Kind::kUntil)) break;
    bool leave = false;
    flow = RunBody(shell, *command.children[1], leave);
    last = shell.status;
    if (leave) return flow;
  }
  shell.status = last;
  return Flow::kNext;
}

Flow Interpreter::RunFor(Shell& shell, const Command& command) {
  std::vector<std::string> words;
  split_unknown_ = -1;
  if (!command.has_words) words = shell.arguments;
  for (const Word& word : command.words) {
    for (std::string& text : Expander(*this, shell).Words(word)) words.push_back(std::move(text));
  }
  if (split_unknown_ >= 0) FailFor(split_unknown_, "what the loop goes over");
  shell.status = {};
  for (const std::string& word : words) {
    SetValue(shell, command.name, word);
    bool leave = false;
    const Flow flow = RunBody(shell, *command.children[0], leave);
    if (leave) return flow;
  }
  return Flow::kNext;
}

Flow Interpreter::RunForSteps(Shell& shell, const Command& command) {
  const auto step = [&](size_t which) -> int64_t {
    const std::string text = Expander(*this, shell).Text(command.words[which]);
    if (which == 1 && absl::StripAsciiWhitespace(text).empty()) return 1;
    int unknown = -1;
    const std::optional<int64_t> value = Arithmetic(shell, text, command.line, unknown);
    if (unknown >= 0) FailFor(unknown, "the loop");
    return value.value_or(0);
  };
  step(0);
  shell.status = {};
  while (!failed() && step(1) != 0) {
    bool leave = false;
    const Flow flow = RunBody(shell, *command.children[0], leave);
    if (leave) return flow;
    step(2);
  }
  return Flow::kNext;
}

Flow Interpreter::RunCase(Shell& shell, const Command& command) {
  const std::string subject = Expander(*this, shell).Text(command.words[0]);
  shell.status = {};
  bool matched = false;
  for (const Clause& clause : command.clauses) {
    for (const Word& word : clause.patterns) {
      if (matched) break;
      const std::string pattern = Expander(*this, shell).Pattern(word);
      if (pattern == "*") {
        matched = true;
      } else if (HasUnknown(pattern) || HasUnknown(subject)) {
        FailFor(FirstUnknown(HasUnknown(subject) ? subject : pattern), "a case");
        return Flow::kExit;
      } else {
        if (!Charge(pattern.size() * (subject.size() + 1))) return Flow::kExit;
        matched = MatchesPattern(pattern, subject);
      }
    }
    if (!matched) continue;
    const Flow flow = RunList(shell, *clause.body);
    if (flow != Flow::kNext || clause.end == ";;") return flow;
    matched = clause.end == ";&";
  }
  return Flow::kNext;
}

Flow Interpreter::RunPipeline(Shell& shell, const Command& command) {
  const size_t count = command.children.size();
  ExitStatus status;
  if (count == 1) {
    if (command.negated) ++shell.unchecked;
    const Flow flow = RunList(shell, *command.children[0]);
    if (command.negated) --shell.unchecked;
    if (flow != Flow::kNext) return flow;
    status = shell.status;
  } else {
    std::shared_ptr<Input> input = shell.input;
    ExitStatus failure;
    for (size_t i = 0; i < count && !failed(); ++i) {
      Shell child = shell;
      child.input = input;
      if (i + 1 < count) child.output = std::make_shared<std::string>();
      RunSubshell(child, *command.children[i]);
      line_ = command.line;
      if (i + 1 < count) {
        input = std::make_shared<Input>();
        input->text = std::move(*child.output);
      }
      status = child.status;
      if (status.code != 0 || status.unknown >= 0) failure = status;
    }
    if (shell.pipe_fails) status = failure;
  }
  if (command.negated) status.code = status.code == 0 ? 1 : 0;
  shell.status = status;
  return command.negated ? Flow::kNext : Checked(shell, Flow::kNext);
}

Flow Interpreter::RunAndOr(Shell& shell, const Command& command) {
  const bool both = command.kind == Command::Kind::kAnd;
  ++shell.unchecked;
  const Flow flow = RunList(shell, *command.children[0]);
  --shell.unchecked;
  if (flow != Flow::kNext || failed()) return flow;
  const ExitStatus left = shell.status;
  if (left.unknown >= 0) {
    if (!IsIndifferent(*command.children[1]) || shell.output != nullptr) {
      FailFor(left.unknown, both ? "what follows &&" : "what follows ||");
    }
    shell.status = both ? left : ExitStatus{};
    return Flow::kNext;
  }
  if ((left.code == 0) != both) return Flow::kNext;
  return RunList(shell, *command.children[1]);
}

}  // namespace hapmoe::client::shell
