#include "client/script_reading/interpreter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/arithmetic.h"
#include "client/script_reading/expander.h"
#include "client/script_stubs.h"

namespace hapmoe::client::shell {
namespace {

constexpr size_t kMaxWork = 10'000'000;
constexpr size_t kCommandWork = 50;
constexpr size_t kVariableWork = 20;
constexpr size_t kMaxOutput = 1 << 20;
constexpr int kMaxDepth = 250;

// Commands for which it does not matter into how many words something unknown is split.
constexpr absl::string_view kIndifferent[] = {
    "echo",  "printf", "mkdir", "rm",  "rmdir", "touch", "cp", "mv",   "ln",    "chmod",
    "sleep", "kill",   "wait",  "cat", "tee",   "ls",    ":",  "true", "ulimit"};

template <size_t n>
bool Contains(const absl::string_view (&list)[n], absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// What a copy of a shell costs.
size_t WorkToCopy(const Shell& shell) {
  size_t work = shell.arguments.size() + shell.functions.size();
  for (const auto& [name, variable] : shell.variables) {
    work += kVariableWork + variable.value.size() / 32 + 2 * variable.items.size() +
            2 * variable.entries.size();
    for (const auto& [index, item] : variable.items) work += item.size() / 32;
  }
  return work;
}

}  // namespace

void Interpreter::Fail(absl::string_view what) {
  if (!failed()) fault_ = {line_, std::string(what)};
}

int Interpreter::NewUnknown(absl::string_view what) {
  Charge(kCommandWork);
  unknowns_.push_back({line_, std::string(what)});
  return static_cast<int>(unknowns_.size()) - 1;
}

void Interpreter::FailFor(int unknown, absl::string_view use) {
  if (failed() || unknown < 0 || unknown >= static_cast<int>(unknowns_.size())) return;
  const Unknown& cause = unknowns_[unknown];
  Fail(absl::StrCat(use, " depends on ", cause.what,
                    cause.line == line_ ? "" : absl::StrCat(" of line ", cause.line),
                    ", which is only known when the script runs"));
}

void Interpreter::Note(absl::string_view what) {
  std::string note = absl::StrCat("line ", line_, ": ", what);
  if (notes_.size() < 20 && std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
    notes_.push_back(std::move(note));
  }
}

bool Interpreter::Charge(size_t work) {
  work_ += work;
  if (work_ > kMaxWork) Fail("it goes on for longer than is followed");
  return !failed();
}

void Interpreter::Write(Shell& shell, absl::string_view text) {
  if (!Charge(text.size()) || shell.output == nullptr) return;
  if (shell.output->size() + text.size() > kMaxOutput) return Fail("more output than is followed");
  absl::StrAppend(shell.output.get(), text);
}

void Interpreter::RunScript(Shell shell, absl::string_view text) {
  RunText(shell, text, 1);
  const std::string trap = std::exchange(shell.exit_trap, "");
  if (!trap.empty() && !failed()) RunText(shell, trap, line_);
  if (!endless_) return;
  // It repeats itself, and what it launches has been seen.
  fault_ = {};
  Note("stopped: it launches without end");
}

Flow Interpreter::RunText(Shell& shell, absl::string_view text, int line) {
  if (!Charge(text.size())) return Flow::kExit;
  List list;
  SyntaxFault fault;
  if (!ParseShell(text, line, list, fault)) {
    line_ = fault.line;
    Fail(fault.what);
    return Flow::kExit;
  }
  return RunList(shell, list);
}

Flow Interpreter::RunList(Shell& shell, const List& list) {
  for (const Command& command : list) {
    if (const Flow flow = Run(shell, command); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Interpreter::Run(Shell& shell, const Command& command) {
  line_ = command.line;
  if (depth_ >= kMaxDepth) Fail("nested too deep");
  if (!Charge(kCommandWork)) return Flow::kExit;
  ++depth_;
  const Flow flow = RunKind(shell, command);
  --depth_;
  return failed() ? Flow::kExit : flow;
}

Flow Interpreter::RunKind(Shell& shell, const Command& command) {
  using Kind = Command::Kind;
  switch (command.kind) {
    case Kind::kSimple:
      return RunSimple(shell, command);
    case Kind::kPipeline:
      return RunPipeline(shell, command);
    case Kind::kAnd:
    case Kind::kOr:
      return RunAndOr(shell, command);
    case Kind::kFunction:
      shell.functions[command.name] = {command.children[0],
                                       shell.sources.empty() ? "" : shell.sources.back()};
      shell.status = {};
      return Flow::kNext;
    case Kind::kBackground: {
      Shell child = shell;
      child.input = std::make_shared<Input>();
      RunSubshell(child, *command.children[0]);
      shell.status = {};
      return Flow::kNext;
    }
    default:
      break;
  }
  // What remains may have redirections of its own.
  const std::shared_ptr<Input> input = shell.input;
  const std::shared_ptr<std::string> output = shell.output;
  Redirect(shell, command.redirections);
  Flow flow = Flow::kNext;
  switch (command.kind) {
    case Kind::kIf:
      flow = RunIf(shell, command);
      break;
    case Kind::kWhile:
    case Kind::kUntil:
      flow = RunWhile(shell, command);
      break;
    case Kind::kFor:
      flow = RunFor(shell, command);
      break;
    case Kind::kForSteps:
      flow = RunForSteps(shell, command);
      break;
    case Kind::kCase:
      flow = RunCase(shell, command);
      break;
    case Kind::kGroup:
      flow = RunList(shell, *command.children[0]);
      break;
    case Kind::kSubshell: {
      Shell child = shell;
      RunSubshell(child, *command.children[0]);
      shell.status = child.status;
      flow = Checked(shell, flow);
      break;
    }
    case Kind::kCondition: {
      size_t at = 0;
      int unknown = -1;
      const std::optional<bool> value = BracketTest(shell, command.words, at, 0, unknown);
      shell.status = {value.value_or(true) ? 0 : 1, unknown};
      flow = Checked(shell, flow);
      break;
    }
    case Kind::kArithmetic: {
      const std::string text = Expander(*this, shell).Text(command.words[0]);
      int unknown = -1;
      const std::optional<int64_t> value = Arithmetic(shell, text, command.line, unknown);
      shell.status = {value.value_or(0) != 0 ? 0 : 1, unknown};
      flow = Checked(shell, flow);
      break;
    }
    default:
      break;
  }
  shell.input = input;
  shell.output = output;
  return flow;
}

Flow Interpreter::Checked(Shell& shell, Flow flow) {
  if (flow != Flow::kNext || !shell.exit_on_error || shell.unchecked > 0) return flow;
  if (shell.status.unknown >= 0) {
    FailFor(shell.status.unknown, "whether set -e ends the script here");
  }
  return shell.status.code == 0 ? flow : Flow::kExit;
}

void Interpreter::RunSubshell(Shell& shell, const List& list) {
  Charge(500 + WorkToCopy(shell));
  shell.exit_trap.clear();
  RunList(shell, list);
  const std::string trap = std::exchange(shell.exit_trap, "");
  if (!trap.empty() && !failed()) RunText(shell, trap, line_);
}

std::string Interpreter::RunSubstitution(const Shell& shell, const List& list, int line) {
  Shell child = shell;
  child.output = std::make_shared<std::string>();
  child.exit_on_error = false;
  // $(< file)
  if (list.size() == 1 && list[0].kind == Command::Kind::kSimple && list[0].words.empty() &&
      list[0].assignments.empty() && list[0].redirections.size() == 1) {
    Redirect(child, list[0].redirections);
    return child.input->text;
  }
  if (depth_ >= kMaxDepth) Fail("nested too deep");
  ++depth_;
  RunSubshell(child, list);
  --depth_;
  line_ = line;
  substitution_status_ = child.status;
  return std::move(*child.output);
}

void Interpreter::Redirect(Shell& shell, const std::vector<Redirection>& redirections) {
  using Kind = Redirection::Kind;
  for (const Redirection& redirection : redirections) {
    const std::vector<Part>& parts = redirection.target.parts;
    const bool process = parts.size() == 1 && parts[0].kind == Part::Kind::kProcess;
    const bool to_output =
        redirection.descriptor == -1 || redirection.descriptor == 1 || redirection.descriptor == -2;
    if (redirection.kind == Kind::kInput) {
      if (redirection.descriptor > 0) {
        Fail("a descriptor of its own is not read");
        continue;
      }
      auto input = std::make_shared<Input>();
      if (process) {
        input->text = RunSubstitution(shell, *parts[0].commands, line_);
      } else {
        const std::string path = Expander(*this, shell).Text(redirection.target);
        if (path != "/dev/null" && !ReadText(shell, path, input->text)) {
          Fail(absl::StrCat("input from ", path, ", which is not there"));
        }
      }
      shell.input = std::move(input);
    } else if (redirection.kind == Kind::kText) {
      if (redirection.descriptor > 0) {
        Fail("a descriptor of its own is not read");
        continue;
      }
      auto input = std::make_shared<Input>();
      input->text = Expander(*this, shell).Text(redirection.target);
      shell.input = std::move(input);
    } else if (redirection.kind == Kind::kDuplicate) {
      const std::string target = Expander(*this, shell).Text(redirection.target);
      if (to_output && target != "1") shell.output = nullptr;
    } else if (process) {
      // What reads it is not followed: it could only launch on what it reads.
      if (to_output) shell.output = nullptr;
    } else {
      const std::vector<std::string> words = Expander(*this, shell).Words(redirection.target);
      if (words.size() != 1) return Fail("a redirection to what is not one file");
      const std::string& path = words[0];
      const bool device = absl::StartsWith(path, "/dev/");
      std::shared_ptr<std::string> text;
      if (!HasUnknown(path) && !device) {
        const std::string absolute = Absolute(shell, path);
        const auto before = written_.find(absolute);
        text = std::make_shared<std::string>();
        if (redirection.kind == Kind::kAppend && before != written_.end()) {
          text = before->second;
        } else if (redirection.kind == Kind::kAppend && !ReadText(shell, path, *text)) {
          if (failed()) return;
        }
        touched_.insert(absolute);
        written_[absolute] = text;
      }
      if (to_output && path != "/dev/stdout") shell.output = text;
    }
  }
}

std::optional<int64_t> Interpreter::Arithmetic(Shell& shell, const std::string& text, int line,
                                               int& unknown) {
  line_ = line;
  if (HasUnknown(text)) {
    unknown = FirstUnknown(text);
    return std::nullopt;
  }
  if (!Charge(text.size() + kCommandWork)) return std::nullopt;
  ArithmeticVariables variables;
  variables.get = [&](const std::string& name, absl::string_view index) -> std::string {
    if (!Charge(kCommandWork)) return "";
    auto parameter = std::make_shared<Parameter>();
    parameter->name = name;
    if (!index.empty()) {
      parameter->subscript = Parameter::Subscript::kIndex;
      Part part;
      part.quoted = true;
      part.text = std::string(index);
      parameter->index.parts.push_back(std::move(part));
    }
    Word word;
    word.line = line;
    Part part;
    part.kind = Part::Kind::kParameter;
    part.quoted = true;
    part.parameter = std::move(parameter);
    word.parts.push_back(std::move(part));
    std::string value = Expander(*this, shell).Text(word);
    if (!HasUnknown(value)) return value;
    unknown = FirstUnknown(value);
    return "";
  };
  variables.set = [&](const std::string& name, absl::string_view index, int64_t value) {
    const std::string number = unknown >= 0 ? UnknownMark(unknown) : absl::StrCat(value);
    if (index.empty()) {
      SetValue(shell, name, number);
    } else {
      SetElement(shell, name, index, number, false);
    }
  };
  const absl::StatusOr<int64_t> value = Evaluate(text, variables);
  // A division by an unknown, say, is not the script's fault.
  if (unknown >= 0) return std::nullopt;
  if (!value.ok()) {
    Fail(std::string(value.status().message()));
    return std::nullopt;
  }
  return *value;
}

Flow Interpreter::RunFunction(Shell& shell, const Function& function,
                              std::vector<std::string> words) {
  const std::vector<std::string> arguments = std::move(shell.arguments);
  const int loops = std::exchange(shell.loops, 0);
  shell.arguments.assign(std::make_move_iterator(words.begin() + 1),
                         std::make_move_iterator(words.end()));
  shell.calls.push_back(words[0]);
  shell.sources.push_back(function.source);
  shell.hidden.emplace_back();
  const std::shared_ptr<const List> body = function.body;  // The function may redefine itself.
  Flow flow = RunList(shell, *body);
  for (auto& [name, variable] : shell.hidden.back()) {
    if (variable.has_value()) {
      shell.variables[name] = std::move(*variable);
    } else {
      shell.variables.erase(name);
    }
  }
  shell.hidden.pop_back();
  shell.sources.pop_back();
  shell.calls.pop_back();
  shell.loops = loops;
  shell.arguments = arguments;
  if (flow == Flow::kReturn) flow = Flow::kNext;
  return Checked(shell, flow);
}

Flow Interpreter::RunSimple(Shell& shell, const Command& command) {
  split_unknown_ = -1;
  substitution_status_.reset();
  std::vector<std::string> words;
  std::vector<std::pair<std::string, const Assignment*>> operands;
  for (size_t i = 0; i < command.words.size(); ++i) {
    if (i < command.declared.size() && command.declared[i] != nullptr) {
      operands.emplace_back("", command.declared[i].get());
      continue;
    }
    for (std::string& text : Expander(*this, shell).Words(command.words[i])) {
      words.push_back(text);
      operands.emplace_back(std::move(text), nullptr);
    }
  }
  if (failed()) return Flow::kExit;
  if (words.empty()) {
    for (const Assignment& assignment : command.assignments) Assign(shell, assignment, false);
    const std::shared_ptr<Input> input = shell.input;
    const std::shared_ptr<std::string> output = shell.output;
    Redirect(shell, command.redirections);
    shell.input = input;
    shell.output = output;
    shell.status = substitution_status_.value_or(ExitStatus{});
    return Checked(shell, Flow::kNext);
  }
  const std::string name = words[0];
  if (HasUnknown(name)) {
    FailFor(FirstUnknown(name), "the name of a command");
    return Flow::kExit;
  }
  if (absl::StrContains(name, "]=") || absl::StrContains(name, "]+=")) {
    Fail("an assignment of a form that is not read");
    return Flow::kExit;
  }
  // Words of a launch are looked at one by one; options of a wrapper may hold a date, say, but not
  // consist of it.
  const absl::string_view base = absl::string_view(name).substr(name.rfind('/') + 1);
  const bool stub =
      std::find(SandboxStubs().begin(), SandboxStubs().end(), base) != SandboxStubs().end();
  const bool whole = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return HasUnknown(word) && !IsEmpty(word).has_value();
  });
  if (split_unknown_ >= 0 && !Contains(kIndifferent, name) && !IsLauncher(base) &&
      (whole || !stub)) {
    FailFor(split_unknown_, absl::StrCat("the words of ", name));
  }
  // What is set before a command holds for it alone.
  std::vector<std::pair<std::string, std::optional<Variable>>> before;
  for (const Assignment& assignment : command.assignments) {
    const Variable* variable = shell.Find(assignment.name);
    before.emplace_back(assignment.name,
                        variable != nullptr ? std::optional<Variable>(*variable) : std::nullopt);
    Assign(shell, assignment, true);
  }
  const std::shared_ptr<Input> input = shell.input;
  const std::shared_ptr<std::string> output = shell.output;
  Redirect(shell, command.redirections);
  Flow flow = Flow::kNext;
  const bool keeps = name == "exec" && words.size() == 1;
  const auto function = shell.functions.find(name);
  if (failed()) {
    flow = Flow::kExit;
  } else if (function != shell.functions.end()) {
    flow = RunFunction(shell, Function(function->second), std::move(words));
  } else if (name == "declare" || name == "typeset" || name == "local" || name == "export" ||
             name == "readonly") {
    flow = Declare(shell, words, operands);
  } else if (!RunBuiltin(shell, words, flow)) {
    RunProgram(shell, std::move(words));
  }
  if (!keeps) {
    shell.input = input;
    shell.output = output;
  }
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    if (it->second.has_value()) {
      shell.variables[it->first] = std::move(*it->second);
    } else {
      shell.variables.erase(it->first);
    }
  }
  return Checked(shell, flow);
}

}  // namespace hapmoe::client::shell
