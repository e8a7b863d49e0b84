// Which files a script is shown: those of its own directory and of the current one, hidden ones
// left out. Nothing else of this machine exists for it.
#ifndef HAPMOE_CLIENT_SCRIPT_FILES_H_
#define HAPMOE_CLIENT_SCRIPT_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hapmoe::client {

// A script that is larger is refused.
inline constexpr size_t kMaxScriptBytes = 1 << 20;

// The text of a script. INVALID_ARGUMENT says why it cannot be read.
absl::StatusOr<std::string> ReadScriptText(const std::string& path);

// Whether a directory is one whose files belong to a job, and not a whole machine or home.
bool IsProjectDirectory(const std::string& directory, const std::string& home);

class ScriptFiles {
 public:
  // `script` is a path as the user gave it; `home` the value of HOME for the script.
  ScriptFiles(const std::string& script, const std::string& home);

  // The script's absolute path, and the current directory.
  const std::string& script() const { return script_; }
  const std::string& current() const { return current_; }
  // Directories that are shown; one around another comes before it.
  const std::vector<std::string>& directories() const { return directories_; }

  // Whether an absolute, normal path is shown, or is a directory around one that is. Links lead
  // only to what is shown itself.
  bool IsShown(const std::string& path) const;

 private:
  std::string script_;
  std::string current_;
  std::vector<std::string> directories_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCRIPT_FILES_H_
