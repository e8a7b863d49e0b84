// Files of the job, as far as the script itself has not changed them.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/file_patterns.h"
#include "client/script_reading/interpreter.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string Interpreter::Absolute(const Shell& shell, absl::string_view path) const {
  const fs::path joined = fs::path(shell.directory) / fs::path(std::string(path));
  std::string text = joined.lexically_normal();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool Interpreter::Touched(const std::string& path) const {
  for (const std::string& touched : touched_) {
    if (path == touched || absl::StartsWith(path, absl::StrCat(touched, "/"))) return true;
  }
  return false;
}

// Whether a path lies in a directory that is only taken to be there.
bool Interpreter::IsAssumed(const std::string& path) const {
  return std::any_of(assumed_.begin(), assumed_.end(), [&path](const std::string& directory) {
    return path == directory || absl::StartsWith(path, absl::StrCat(directory, "/"));
  });
}

void Interpreter::Touch(const Shell& shell, absl::string_view path) {
  if (HasUnknown(path) || !Charge(path.size() + 100)) return;
  const std::string absolute = Absolute(shell, path);
  touched_.insert(absolute);
  written_.erase(absolute);
}

bool Interpreter::ReadText(const Shell& shell, const std::string& path, std::string& text) {
  const std::string absolute = Absolute(shell, path);
  if (path.empty()) return false;
  if (HasUnknown(path)) {
    FailFor(FirstUnknown(path), "the name of a file");
    return false;
  }
  if (const auto written = written_.find(absolute); written != written_.end()) {
    text = *written->second;
    if (HasUnknown(text)) FailFor(FirstUnknown(text), absl::StrCat("what is in ", path));
    return !failed();
  }
  if (Touched(absolute)) {
    Fail(absl::StrCat(path, " is changed by the script itself"));
    return false;
  }
  if (IsOfSystem(absolute)) {
    Fail(absl::StrCat(path, " is a file of the system"));
    return false;
  }
  if (IsAssumed(absolute)) {
    Fail(absl::StrCat(path, " is in a directory that is only taken to be there"));
    return false;
  }
  std::error_code error;
  if (!files_.IsShown(absolute) || !fs::is_regular_file(absolute, error)) return false;
  absl::StatusOr<std::string> read = ReadScriptText(absolute);
  if (!read.ok()) {
    Fail(read.status().message());
    return false;
  }
  text = *std::move(read);
  if (text.find_first_of(std::string("\0\1\2", 3)) != std::string::npos) {
    Fail(absl::StrCat(path, " holds control characters"));
  }
  return Charge(text.size());
}

}  // namespace hapmoe::client::shell
