// What programs write that scripts compute with: pure functions of their words and their input.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_TOOLS_H_
#define HAPMOE_CLIENT_SCRIPT_READING_TOOLS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hapmoe::client::shell {

// What echo and printf write. Returned is what is not read of them, or "".
std::string EchoText(const std::vector<std::string>& words, std::string& text);
std::string PrintfText(const std::vector<std::string>& words, std::string& text);

struct ToolResult {
  bool known = false;  // False for a program, or a form of it, that is not read.
  std::string text;
};

// basename, cut, dirname, head, seq, tail, tr, wc and the like, that read no files.
ToolResult RunTextTool(const std::vector<std::string>& words, absl::string_view input);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_TOOLS_H_
