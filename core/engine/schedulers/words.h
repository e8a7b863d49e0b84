// Words that schedulers take without any quoting, and names of Kubernetes.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_WORDS_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_WORDS_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace hapmoe::engine {

// Lower case letters, digits and dashes, a letter first, no dash last (RFC 1035); at most
// `longest`.
bool IsDnsLabel(absl::string_view text, size_t longest = 63);

// Labels that may start with a digit, joined by dots; at most 253 bytes (RFC 1123).
bool IsDnsSubdomain(absl::string_view text);

// "key" or "prefix/key" of a label, a taint or a resource.
bool IsQualifiedName(absl::string_view text);

// The value of a label; may be empty.
bool IsLabelValue(absl::string_view text);

// An amount of a resource, "8", "0.5" or "64Gi".
bool IsQuantity(absl::string_view text);

// A word on a line of #SBATCH, which Slurm splits at blanks and reads quotes, backslashes and '#'
// in: letters, digits and what names, features with their operators, and lists of hosts need.
bool IsSlurmWord(absl::string_view text);

// An absolute path without control characters, at most 4096 bytes of UTF-8.
bool IsAbsolutePath(absl::string_view text);

// Printable ASCII without blanks, not starting with '-'; at most 1024 bytes.
bool IsImage(absl::string_view text);

// Minutes, "[hours:]minutes:seconds" or "days-hours[:minutes[:seconds]]".
bool IsSlurmTime(absl::string_view text);

// "TERM@120", with "B:" or "R:" before it where wanted.
bool IsSlurmSignal(absl::string_view text);

// A name that bash and Kubernetes take for a variable, and that the launcher does not set itself.
bool IsUserVariable(absl::string_view text);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_WORDS_H_
