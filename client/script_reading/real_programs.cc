// Programs that are real ones in the sandbox, as far as what they do is certain.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/tools.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

std::string BaseName(absl::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

// Programs of the sandbox that are real there. False for what is not followed.
bool Interpreter::RunTool(Shell& shell, const std::vector<std::string>& words) {
  const std::string name = BaseName(words[0]);
  if (name == "env") {
    size_t at = 1;
    Shell child = shell;
    for (; at < words.size(); ++at) {
      const size_t equals = words[at].find('=');
      if (words[at] == "-u" && at + 1 < words.size()) {
        child.variables.erase(words[++at]);
      } else if (absl::StartsWith(words[at], "-")) {
        return false;
      } else if (equals == std::string::npos) {
        break;
      } else {
        Variable& variable = child.variables[words[at].substr(0, equals)];
        variable = {};
        variable.is_set = variable.exported = true;
        variable.value = words[at].substr(equals + 1);
      }
    }
    if (at == words.size()) return false;
    RunProgram(child, {words.begin() + at, words.end()});
    shell.status = child.status;
    return true;
  }
  if (name == "nohup" || name == "nice" || name == "timeout" || name == "stdbuf" ||
      name == "setsid") {
    size_t at = 1;
    for (; at < words.size() && absl::StartsWith(words[at], "-"); ++at) {
      const bool takes = (words[at] == "-n" && name == "nice") ||
                         ((words[at] == "-s" || words[at] == "-k") && name == "timeout") ||
                         (name == "stdbuf" && words[at].size() == 2);
      if (takes) ++at;
    }
    if (name == "timeout") ++at;
    if (at >= words.size()) return false;
    RunProgram(shell, {words.begin() + at, words.end()});
    return true;
  }
  std::string input = shell.input->text.substr(std::min(shell.input->at, shell.input->text.size()));
  if (name == "cat" || name == "tee") {
    std::string text;
    for (size_t i = 1; i < words.size(); ++i) {
      if (absl::StartsWith(words[i], "-") && words[i] != "-") {
        if (name == "cat") return false;
      } else if (name == "tee") {
        Touch(shell, words[i]);
      } else if (words[i] == "-") {
        text += input;
      } else if (std::string file; ReadText(shell, words[i], file)) {
        text += file;
      } else {
        if (!failed()) shell.status.code = 1;
      }
    }
    if (name == "tee" || words.size() == 1) text = std::move(input);
    if (name == "tee" || words.size() == 1) shell.input->at = shell.input->text.size();
    Write(shell, text);
    return true;
  }
  if (name == "printenv" && words.size() == 2) {
    const Variable* variable = shell.Find(words[1]);
    const bool exported = variable != nullptr && variable->exported && variable->is_set;
    if (exported) Write(shell, absl::StrCat(variable->value, "\n"));
    shell.status.code = exported ? 0 : 1;
    return true;
  }
  if (name == "readlink" || name == "realpath") {
    const bool follows = name == "realpath" || (words.size() == 3 && words[1] == "-f") ||
                         (words.size() == 3 && words[1] == "-m");
    const std::string& path = words.back();
    if (!follows || words.size() < 2 || HasUnknown(path) || path[0] == '-') return false;
    const std::string absolute = Absolute(shell, path);
    if (!files_.IsShown(absolute)) return false;
    // Where nothing on the way is a link, a path leads to itself.
    std::error_code error;
    const fs::path real = fs::weakly_canonical(absolute, error);
    const bool in_directory =
        std::any_of(files_.directories().begin(), files_.directories().end(),
                    [&](const std::string& directory) {
                      return fs::weakly_canonical(directory, error).string() +
                                 absolute.substr(std::min(directory.size(), absolute.size())) ==
                             real.string();
                    });
    if (!in_directory && real != absolute) return false;
    Write(shell, absl::StrCat(absolute, "\n"));
    return true;
  }
  if (name == "rm" || name == "rmdir" || name == "cp" || name == "mv" || name == "ln" ||
      name == "touch") {
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].empty() || words[i][0] == '-') continue;
      if (name != "cp" || i + 1 == words.size()) Touch(shell, words[i]);
    }
    shell.status.unknown = NewUnknown(name);
    // These fail for what is not there, and a launch does not wait for them.
    const bool forced = name == "rm" && words.size() > 1 && absl::StrContains(words[1], "f");
    if (forced || name == "touch") shell.status.unknown = -1;
    return true;
  }
  if (name == "chmod") {
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[1].find_first_of("x57") != std::string::npos && !HasUnknown(words[i])) {
        executable_.insert(Absolute(shell, words[i]));
      }
    }
    return true;
  }
  if (name == "test") return false;
  if (std::any_of(words.begin(), words.end(), HasUnknown)) return false;
  const ToolResult known = RunTextTool(words, HasUnknown(input) ? "" : input);
  if (!known.known) return false;
  const bool reads = name != "basename" && name != "dirname" && name != "seq";
  if (reads) shell.input->at = shell.input->text.size();
  Write(shell, reads && HasUnknown(input) ? UnknownMark(FirstUnknown(input)) : known.text);
  return true;
}

}  // namespace hapmoe::client::shell
