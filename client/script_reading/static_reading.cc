#include "client/script_reading/static_reading.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/script_files.h"
#include "client/script_reading/interpreter.h"

namespace hapmoe::client {

absl::StatusOr<ScriptRun> ReadScriptStatically(const ScriptRequest& request) {
  absl::StatusOr<std::string> text = ReadScriptText(request.script);
  if (!text.ok()) return text.status();
  const ScriptFiles files(request.script, request.home);
  shell::Shell shell;
  shell.name = request.script;
  shell.sources = {request.script};
  shell.arguments = request.arguments;
  shell.directory = files.current();
  shell.input = std::make_shared<shell::Input>();
  std::vector<std::string> initial = InitialEnvironment(request, *text);
  for (const std::string& variable : initial) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    shell.variables[parts.first].is_set = true;
    shell.variables[parts.first].exported = true;
    shell.variables[parts.first].value = parts.second;
  }
  shell.variables["PWD"].is_set = true;
  shell.variables["PWD"].value = files.current();
  shell.variables["HOSTNAME"].is_set = true;
  shell.variables["HOSTNAME"].value = "localhost";
  for (const std::string& argument : request.arguments) {
    if (shell::HasUnknown(argument)) {
      return absl::InvalidArgumentError("an argument holds control characters");
    }
  }
  LaunchList launches;
  shell::Interpreter interpreter(
      files, [&launches](const std::string& program, const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& environment) {
        return launches.Add(program, words, environment);
      });
  interpreter.RunScript(std::move(shell), *text);
  if (const shell::SyntaxFault& fault = interpreter.fault(); !fault.what.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.script, ":", fault.line, ": ", fault.what,
                     "\nOnly what is certain without running it is read; --script-reading sandbox "
                     "runs the script where it can do nothing else."));
  }
  ScriptRun run;
  run.launches = launches.Take();
  run.notes = interpreter.notes();
  if (!interpreter.missing_programs().empty()) {
    run.notes.push_back(MissingProgramsNote(interpreter.missing_programs()));
  }
  return run;
}

}  // namespace hapmoe::client
