#include "tests/trial/verdict.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace hapmoe::trial {

void Verdict::Require(bool holds, const std::string& what) {
  if (!holds) ++failures_;
  Tell(absl::StrCat(holds ? "holds   " : "BROKEN  ", what));
}

void Verdict::RequireEqual(int64_t value, int64_t wanted, const std::string& what) {
  Require(value == wanted, absl::StrCat(what, ": ", value, ", must be ", wanted));
}

void Verdict::RequireAtMost(double value, double most, const std::string& what, const char* unit) {
  Require(value <= most, absl::StrCat(what, ": ", value, " ", unit, ", at most ", most));
}

void Verdict::RequireWithin(double seconds, double strict_seconds, double lenient_seconds,
                            const std::string& what) {
  const double limit = strict_ ? strict_seconds : lenient_seconds;
  const char* const kept = seconds <= strict_seconds ? "" : " (more than the acceptance's ";
  Require(seconds <= limit,
          absl::StrCat(what, ": ", seconds * 1e3, " ms, at most ", limit * 1e3, kept,
                       *kept == '\0' ? "" : absl::StrCat(strict_seconds * 1e3, ")")));
}

void Verdict::Tell(const std::string& what) const {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

}  // namespace hapmoe::trial
