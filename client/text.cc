#include "client/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hapmoe::client {
namespace {

// Levenshtein distance.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Four significant digits without an exponent.
std::string FourDigits(double value) {
  const double magnitude = std::fabs(value);
  const int decimals = magnitude >= 1000 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
  return absl::StrFormat("%.*f", decimals, value);
}

}  // namespace

std::string SecondsText(double seconds) {
  const double magnitude = std::fabs(seconds);
  if (seconds == 0) return "0 s";
  if (magnitude >= 1) return absl::StrCat(FourDigits(seconds), " s");
  if (magnitude >= 1e-3) return absl::StrCat(FourDigits(seconds * 1e3), " ms");
  return absl::StrCat(FourDigits(seconds * 1e6), " us");
}

std::string GibibytesText(double bytes) {
  return absl::StrFormat("%.2f", bytes / (1024.0 * 1024.0 * 1024.0));
}

std::string CountText(int64_t count) {
  std::string digits = absl::StrCat(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t end = digits.size(); end > first + 3;) {
    end -= 3;
    digits.insert(end, ",");
  }
  return digits;
}

std::string CountOf(int64_t count, absl::string_view noun) {
  return absl::StrCat(CountText(count), " ", noun, count == 1 ? "" : "s");
}

std::string PercentText(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

std::string Printable(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&result, "\\x%02x", byte);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

std::string NearestWord(absl::string_view word, const std::vector<std::string>& words) {
  std::string nearest;
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string TextTable::Render(int indent) const {
  std::vector<size_t> widths(columns_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == Align::kRight ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace hapmoe::client
