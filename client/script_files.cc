#include "client/script_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job_request.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;

bool IsWithin(const fs::path& path, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first ==
         directory.end();
}

}  // namespace

bool IsProjectDirectory(const std::string& directory, const std::string& home) {
  if (directory.empty() || directory == "/" || directory == home || directory == "/tmp") {
    return false;
  }
  const fs::path path = directory;
  const std::string top = std::next(path.begin())->string();
  return top != "proc" && top != "dev" && top != "sys" && top != "run" && top != "usr" &&
         top != "etc" && top != "lib" && top != "bin";
}

absl::StatusOr<std::string> ReadScriptText(const std::string& path) {
  const auto refuse = [&path](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", why));
  };
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return refuse(error ? error.message() : "not a file");
  if (fs::file_size(path, error) > kMaxScriptBytes) return refuse("larger than 1 MiB");
  std::ifstream nothing;
  return ReadFile(path, nothing, kMaxScriptBytes);
}

ScriptFiles::ScriptFiles(const std::string& script, const std::string& home) {
  std::error_code error;
  const fs::path current = fs::current_path(error);
  const fs::path path = (current / script).lexically_normal();
  script_ = path;
  current_ = current;
  const bool current_shown = IsProjectDirectory(current, home);
  if (current_shown) directories_.push_back(current);
  const fs::path own = path.parent_path();
  if (!IsProjectDirectory(own, home) || own == current) return;
  if (!current_shown || !IsWithin(own, current)) {
    directories_.insert(IsWithin(current, own) ? directories_.begin() : directories_.end(), own);
  }
}

bool ScriptFiles::IsShown(const std::string& path) const {
  if (path == script_) return true;
  std::error_code error;
  return std::any_of(directories_.begin(), directories_.end(), [&](const fs::path& directory) {
    if (IsWithin(directory, path)) return true;
    if (!IsWithin(path, directory)) return false;
    const fs::path inside = fs::path(path).lexically_relative(directory);
    if (absl::StartsWith(inside.begin()->string(), ".")) return false;
    const fs::path real = fs::weakly_canonical(path, error);
    const fs::path real_directory = fs::weakly_canonical(directory, error);
    return !error && IsWithin(real, real_directory);
  });
}

}  // namespace hapmoe::client
