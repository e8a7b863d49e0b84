#include "tests/core/engine/schedulers/sandbox.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/engine/shell_quote.h"

namespace hapmoe::engine {

namespace fs = std::filesystem;

Sandbox::Sandbox() {
  std::string pattern = (fs::temp_directory_path() / "hapmoe scheduler XXXXXX").string();
  root_ = mkdtemp(pattern.data());
  for (const char* folder : {"bin", "work", "out", "plan"}) fs::create_directory(Path(folder));
}

Sandbox::~Sandbox() { fs::remove_all(root_); }

void Sandbox::Write(const std::string& name, const std::string& content) const {
  std::ofstream(Path(name), std::ios::binary) << content;
  chmod(Path(name).c_str(), 0755);
}

std::string Sandbox::Read(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<std::string> Sandbox::ReadWords(const std::string& name) const {
  std::string text = Read(name);
  if (text.empty()) return {};
  text.pop_back();  // The NUL that ends the last word.
  return absl::StrSplit(text, '\0');
}

void Sandbox::Clear() const {
  fs::remove_all(Path("out"));
  fs::create_directory(Path("out"));
}

SandboxOutcome Sandbox::Run(const std::vector<std::string>& words,
                            const std::map<std::string, std::string>& environment) const {
  std::string command =
      absl::StrCat("cd ", ShellQuote(Path("work")), " && env -i PATH=", ShellQuote(Path("bin")),
                   ":/usr/bin:/bin STUB_OUT=", ShellQuote(Path("out")));
  for (const auto& [name, value] : environment) {
    absl::StrAppend(&command, " ", name, "=", ShellQuote(value));
  }
  absl::StrAppend(&command, " bash ", ShellQuote(absl::MakeConstSpan(words)),
                  " >../stdout 2>../stderr </dev/null");
  SandboxOutcome outcome;
  outcome.exit_code = WEXITSTATUS(std::system(command.c_str()));
  outcome.out = Read("stdout");
  outcome.error = Read("stderr");
  return outcome;
}

bool Sandbox::WorkIsEmpty() const { return fs::is_empty(Path("work")); }

}  // namespace hapmoe::engine
