// Names of files that match a pattern.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_FILE_PATTERNS_H_
#define HAPMOE_CLIENT_SCRIPT_READING_FILE_PATTERNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/script_files.h"

namespace hapmoe::client::shell {

// Whether a path lies in a directory of the system, about which a reading says nothing.
bool IsOfSystem(absl::string_view path);

// The paths that match, as bash would put them, sorted by bytes. `fault` says why that cannot be
// told.
std::vector<std::string> MatchFiles(const ScriptFiles& files, const std::string& directory,
                                    absl::string_view pattern, std::string& fault);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_FILE_PATTERNS_H_
