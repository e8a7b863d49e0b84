// Follows a script without running it. Whatever only a run can tell is an unknown, and an unknown
// that decides what is launched, or is part of it, is a fault: nothing is guessed.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_INTERPRETER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_INTERPRETER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/script_files.h"
#include "client/script_reading/parser.h"
#include "client/script_reading/state.h"
#include "client/script_reading/syntax.h"

namespace hapmoe::client::shell {

// Where a value comes from that only a run can tell.
struct Unknown {
  int line = 0;
  std::string what;
};

// How control leaves a command.
enum class Flow { kNext, kBreak, kContinue, kReturn, kExit };

class Interpreter {
 public:
  // A launch: the program's name, its words, and all that is exported.
  // False ends the reading.
  using OnLaunch =
      std::function<bool(const std::string& program, const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& environment)>;

  Interpreter(ScriptFiles files, OnLaunch on_launch)
      : files_(std::move(files)), on_launch_(std::move(on_launch)) {}

  // Follows the text of a script, as bash started with this shell would. After a fault, what was
  // launched before it says nothing about the whole.
  void RunScript(Shell shell, absl::string_view text);

  const SyntaxFault& fault() const { return fault_; }
  const std::set<std::string>& missing_programs() const { return missing_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class Expander;

  // interpreter.cc: the commands of the language.
  Flow RunText(Shell& shell, absl::string_view text, int line);
  Flow RunList(Shell& shell, const List& list);
  Flow Run(Shell& shell, const Command& command);
  Flow RunKind(Shell& shell, const Command& command);
  Flow RunBody(Shell& shell, const List& body, bool& leave);
  Flow RunIf(Shell& shell, const Command& command);
  Flow RunWhile(Shell& shell, const Command& command);
  Flow RunFor(Shell& shell, const Command& command);
  Flow RunForSteps(Shell& shell, const Command& command);
  Flow RunCase(Shell& shell, const Command& command);
  Flow RunPipeline(Shell& shell, const Command& command);
  Flow RunAndOr(Shell& shell, const Command& command);
  Flow RunSimple(Shell& shell, const Command& command);
  Flow RunFunction(Shell& shell, const Function& function, std::vector<std::string> words);
  std::string RunSubstitution(const Shell& shell, const List& list, int line);
  void RunSubshell(Shell& shell, const List& list);
  Flow Checked(Shell& shell, Flow flow);
  std::optional<bool> Condition(Shell& shell, Flow& flow, const List& list);
  void Redirect(Shell& shell, const std::vector<Redirection>& redirections);
  std::optional<int64_t> Arithmetic(Shell& shell, const std::string& text, int line, int& unknown);

  // assignments.cc
  void Assign(Shell& shell, const Assignment& assignment, bool exported);
  void SetValue(Shell& shell, const std::string& name, std::string value);
  void SetElement(Shell& shell, const std::string& name, absl::string_view index, std::string value,
                  bool append);
  Flow Declare(Shell& shell, const std::vector<std::string>& options,
               const std::vector<std::pair<std::string, const Assignment*>>& operands);

  // conditions.cc: test, [ and [[. Nothing is returned after a fault, or for an unknown.
  std::optional<bool> Test(Shell& shell, const std::vector<std::string>& words, int& unknown);
  std::optional<bool> UnaryTest(Shell& shell, const std::string& operation, const std::string& word,
                                int& unknown);
  std::optional<bool> BinaryTest(Shell& shell, const std::string& left,
                                 const std::string& operation, const std::string& right,
                                 int& unknown);
  std::optional<bool> BracketTest(Shell& shell, const std::vector<Word>& words, size_t& at,
                                  int least, int& unknown);
  std::optional<bool> RegularTest(Shell& shell, const std::string& text,
                                  const std::string& expression, const Word& word);

  // builtins.cc: false where there is no builtin of this name.
  bool RunBuiltin(Shell& shell, const std::vector<std::string>& words, Flow& flow);
  Flow RunSource(Shell& shell, const std::vector<std::string>& words);
  void RunRead(Shell& shell, const std::vector<std::string>& words);
  void RunMapFile(Shell& shell, const std::vector<std::string>& words);
  void RunSet(Shell& shell, const std::vector<std::string>& words);
  void RunShopt(const std::vector<std::string>& words);
  void RunDirectory(Shell& shell, const std::vector<std::string>& words);
  void RunUnset(Shell& shell, const std::vector<std::string>& words);
  void RunCommandLookup(Shell& shell, const std::vector<std::string>& words);
  void RunGetOptions(Shell& shell, const std::vector<std::string>& words);
  void RunPrint(Shell& shell, std::vector<std::string> words);
  Flow RunJump(Shell& shell, const std::vector<std::string>& words);

  // programs.cc: what is not bash itself, as the sandbox has it.
  void RunProgram(Shell& shell, std::vector<std::string> words);
  void RunPython(Shell& shell, const std::vector<std::string>& words);
  void RunBash(Shell& shell, std::vector<std::string> words);
  void RunBatch(Shell& shell, const std::vector<std::string>& words);
  void RunWrapped(Shell& shell, const std::vector<std::string>& words);
  void RunFile(Shell& shell, const std::string& path, const std::vector<std::string>& arguments);
  void RunExecutable(Shell& shell, const std::vector<std::string>& words);
  void RunChild(Shell& shell, Shell child, const std::string& text, const std::string& what);
  bool RunTool(Shell& shell, const std::vector<std::string>& words);
  static bool IsLauncher(absl::string_view name);
  void Record(Shell& shell, const std::vector<std::string>& words);
  Shell Child(const Shell& shell) const;

  // Files, as far as the script itself has not changed them.
  std::string Absolute(const Shell& shell, absl::string_view path) const;
  bool Touched(const std::string& path) const;
  bool IsAssumed(const std::string& path) const;
  void Touch(const Shell& shell, absl::string_view path);
  bool ReadText(const Shell& shell, const std::string& path, std::string& text);

  int NewUnknown(absl::string_view what);
  std::string UnknownText(absl::string_view what) { return UnknownMark(NewUnknown(what)); }
  // Refuses for what is unknown.
  void FailFor(int unknown, absl::string_view use);
  void Fail(absl::string_view what);
  void Note(absl::string_view what);
  bool failed() const { return !fault_.what.empty(); }
  // Counts work; false when there was more than any honest script asks for.
  bool Charge(size_t work);
  void Write(Shell& shell, absl::string_view text);

  ScriptFiles files_;
  OnLaunch on_launch_;
  SyntaxFault fault_;
  std::vector<Unknown> unknowns_;
  std::set<std::string> missing_;
  std::vector<std::string> notes_;
  std::set<std::string> touched_;
  // Files that it wrote, by absolute path, as far as that is known; directories that it made;
  // files that it made executable.
  std::map<std::string, std::shared_ptr<std::string>> written_;
  std::set<std::string> made_;
  std::set<std::string> executable_;
  // Directories that it entered and that are not shown.
  std::set<std::string> assumed_;
  size_t work_ = 0;
  bool endless_ = false;
  int depth_ = 0;
  int line_ = 0;
  // Whether unquoted text that is unknown was split into words since this was last cleared.
  int split_unknown_ = -1;
  std::optional<ExitStatus> substitution_status_;  // Of the last one of a command.
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_INTERPRETER_H_
