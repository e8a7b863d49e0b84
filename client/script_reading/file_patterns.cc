#include "client/script_reading/file_patterns.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/script_reading/pattern.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNames = 4096;

std::string Unescaped(absl::string_view pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    text.push_back(pattern[i]);
  }
  return text;
}

}  // namespace

bool IsOfSystem(absl::string_view path) {
  for (const absl::string_view top : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc",
                                      "/proc", "/sys", "/dev", "/run", "/var"}) {
    if (path == top || absl::StartsWith(path, absl::StrCat(top, "/"))) return true;
  }
  return path == "/";
}

std::vector<std::string> MatchFiles(const ScriptFiles& files, const std::string& directory,
                                    absl::string_view pattern, std::string& fault) {
  const bool absolute = absl::StartsWith(pattern, "/");
  std::vector<std::string> found = {absolute ? "/" : ""};
  const std::vector<absl::string_view> segments = absl::StrSplit(pattern, '/', absl::SkipEmpty());
  for (const absl::string_view segment : segments) {
    std::vector<std::string> next;
    const std::string plain = Unescaped(segment);
    for (const std::string& prefix : found) {
      const fs::path where = fs::path(absolute ? prefix : absl::StrCat(directory, "/", prefix));
      const std::string shown = (where / ".").lexically_normal().parent_path();
      const std::string join = prefix.empty() || absl::EndsWith(prefix, "/") ? "" : "/";
      std::error_code error;
      if (!IsPattern(segment)) {
        const std::string path = (where / plain).lexically_normal();
        if (IsOfSystem(path)) fault = "files of the system are not read";
        if (files.IsShown(path) && fs::exists(path, error)) {
          next.push_back(absl::StrCat(prefix, join, plain));
        }
        continue;
      }
      if (IsOfSystem(shown)) fault = "files of the system are not read";
      if (!fault.empty() || !files.IsShown(shown)) continue;
      for (fs::directory_iterator it(shown, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename();
        if (absl::StartsWith(name, ".") || !MatchesPattern(segment, name) ||
            !files.IsShown(it->path())) {
          continue;
        }
        next.push_back(absl::StrCat(prefix, join, name));
        if (next.size() > kMaxNames) fault = "too many files";
      }
    }
    found = std::move(next);
    if (!fault.empty()) return {};
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace hapmoe::client::shell
