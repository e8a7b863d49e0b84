// Numbers and tables as engineers read them, in plain ASCII columns.
#ifndef HAPMOE_CLIENT_TEXT_H_
#define HAPMOE_CLIENT_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hapmoe::client {

// Four significant digits in the unit that suits: "5.432 s", "12.34 ms", "85.00 us".
std::string SecondsText(double seconds);

// Two decimals: "71.24".
std::string GibibytesText(double bytes);

// Groups of three digits: "1,234,567".
std::string CountText(int64_t count);

// "1 stage", "2 stages": `noun` takes an s.
std::string CountOf(int64_t count, absl::string_view noun);

// "42.1 %".
std::string PercentText(double ratio);

// The text without what could move a terminal's cursor: control characters become "\x1b" and so
// on. Texts of a server may repeat what somebody else typed.
std::string Printable(absl::string_view text);

// The word of `words` that was probably meant by `word`, or "" where none is near.
std::string NearestWord(absl::string_view word, const std::vector<std::string>& words);

// A table whose columns are as wide as their widest cell, two spaces apart.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  // One alignment for each column. The first row added is the heading, if there is to be one.
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; there are no more cells than columns.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Every line starts with `indent` spaces and ends without any.
  std::string Render(int indent) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_TEXT_H_
