#include "core/engine/schedulers/words.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/engine/node_launcher.h"
#include "core/engine/schedulers/yaml.h"

namespace hapmoe::engine {
namespace {

bool IsLowerOrDigit(unsigned char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }

bool IsDigits(absl::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         absl::c_all_of(text, [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// Letters and digits at both ends, and these characters between them.
bool IsName(absl::string_view text, absl::string_view between, size_t longest) {
  if (text.empty() || text.size() > longest) return false;
  const auto alnum = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  return alnum(text.front()) && alnum(text.back()) &&
         absl::c_all_of(text, [&](char c) { return alnum(c) || absl::StrContains(between, c); });
}

}  // namespace

bool IsDnsLabel(absl::string_view text, size_t longest) {
  return IsName(text, "-", longest) && absl::ascii_islower(static_cast<unsigned char>(text[0])) &&
         absl::c_all_of(text, [](unsigned char c) { return c == '-' || IsLowerOrDigit(c); });
}

bool IsDnsSubdomain(absl::string_view text) {
  if (text.size() > 253) return false;
  for (const absl::string_view label : absl::StrSplit(text, '.')) {
    const bool lower =
        absl::c_all_of(label, [](unsigned char c) { return c == '-' || IsLowerOrDigit(c); });
    if (!lower || !IsName(label, "-", 253)) return false;
  }
  return true;
}

bool IsQualifiedName(absl::string_view text) {
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) return IsName(text, "-_.", 63);
  return IsDnsSubdomain(text.substr(0, slash)) && IsName(text.substr(slash + 1), "-_.", 63);
}

bool IsLabelValue(absl::string_view text) { return text.empty() || IsName(text, "-_.", 63); }

bool IsQuantity(absl::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, end);
  const absl::string_view unit = end == absl::string_view::npos ? "" : text.substr(end);
  constexpr absl::string_view kUnits[] = {"",  "m",  "k",  "M",  "G",  "T",  "P",
                                          "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  if (!absl::c_linear_search(kUnits, unit)) return false;
  const size_t dot = number.find('.');
  return IsDigits(number.substr(0, dot), 15) &&
         (dot == absl::string_view::npos || IsDigits(number.substr(dot + 1), 9));
}

bool IsSlurmWord(absl::string_view text) {
  return !text.empty() && text.size() <= 1024 && text.front() != '-' &&
         absl::c_all_of(text, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains("._-+@:/=,&|*()[]", c);
         });
}

bool IsAbsolutePath(absl::string_view text) {
  return !text.empty() && text.size() <= 4096 && text.front() == '/' && IsUtf8(text) &&
         absl::c_none_of(text, [](unsigned char c) { return c < ' ' || c == 127; });
}

bool IsImage(absl::string_view text) {
  return !text.empty() && text.size() <= 1024 && text.front() != '-' &&
         absl::c_all_of(text, [](unsigned char c) { return c > ' ' && c < 127; });
}

bool IsSlurmTime(absl::string_view text) {
  const size_t dash = text.find('-');
  const bool days = dash != absl::string_view::npos;
  if (days && !IsDigits(text.substr(0, dash), 4)) return false;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(days ? text.substr(dash + 1) : text, ':');
  return parts.size() <= 3 &&
         absl::c_all_of(parts, [](absl::string_view part) { return IsDigits(part, 6); });
}

bool IsSlurmSignal(absl::string_view text) {
  if (absl::StartsWith(text, "B:") || absl::StartsWith(text, "R:")) text.remove_prefix(2);
  const size_t at = text.find('@');
  const absl::string_view name = text.substr(0, at);
  const bool named =
      !name.empty() && name.size() <= 12 && absl::c_all_of(name, [](unsigned char c) {
        return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '+';
      });
  int seconds = 0;
  return named && (at == absl::string_view::npos ||
                   (IsDigits(text.substr(at + 1), 5) &&
                    absl::SimpleAtoi(text.substr(at + 1), &seconds) && seconds <= 65535));
}

bool IsUserVariable(absl::string_view text) {
  const bool named =
      !text.empty() && text.size() <= 128 &&
      !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
      absl::c_all_of(text, [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
  // What users of launch.sh set on purpose.
  constexpr absl::string_view kMeant[] = {"HAPMOE_CONFIRM_BACKEND", "PATH", "TORCHRUN"};
  const bool schedulers =
      absl::StartsWith(text, "SLURM") || text == "JOB_COMPLETION_INDEX" || text == "VC_TASK_INDEX";
  return named && !schedulers && (absl::c_linear_search(kMeant, text) || !IsReservedVariable(text));
}

}  // namespace hapmoe::engine
