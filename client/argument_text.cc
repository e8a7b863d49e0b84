#include "client/argument_text.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client {
namespace {

absl::StatusOr<std::vector<std::string>> ParseJsonList(absl::string_view text) {
  google::protobuf::ListValue list;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &list);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not a JSON list: ", absl::string_view(status.message().data(), status.message().size())));
  }
  std::vector<std::string> arguments;
  for (const google::protobuf::Value& value : list.values()) {
    // A number's spelling would be lost: 1e-5 and 0.00001 are different words.
    if (!value.has_string_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("element ", arguments.size() + 1, " of the list is not a string"));
    }
    arguments.push_back(value.string_value());
  }
  return arguments;
}

// Splits words as a shell does.
class WordSplitter {
 public:
  explicit WordSplitter(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<std::string>> Split() {
    while (at_ < text_.size()) {
      if (absl::Status status = Step(text_[at_]); !status.ok()) return status;
    }
    EndWord();
    return std::move(words_);
  }

 private:
  absl::Status Step(char c) {
    if (absl::ascii_isspace(c)) {
      EndWord();
      Advance();
    } else if (c == '#' && !in_word_) {
      while (at_ < text_.size() && text_[at_] != '\n') Advance();
    } else if (c == '\'' || c == '"') {
      return Quoted(c);
    } else if (c == '\\') {
      Escaped();
    } else if (c == '$' || c == '`') {
      return Unexpanded(c);
    } else {
      Append(c);
    }
    return absl::OkStatus();
  }

  absl::Status Quoted(char quote) {
    const int first_line = line_;
    in_word_ = true;
    Advance();
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_];
      if (quote == '"' && c == '\\' && at_ + 1 < text_.size() &&
          absl::StrContains("\"\\$`\n", text_.substr(at_ + 1, 1))) {
        Escaped();
      } else if (quote == '"' && (c == '$' || c == '`')) {
        return Unexpanded(c);
      } else {
        Append(c);
      }
    }
    if (at_ == text_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", first_line, ": a quote is not closed"));
    }
    Advance();
    return absl::OkStatus();
  }

  // A backslash: a continued line, or the next character as it is.
  void Escaped() {
    Advance();
    if (at_ == text_.size()) return;
    if (text_[at_] == '\n') {
      Advance();
    } else {
      Append(text_[at_]);
    }
  }

  absl::Status Unexpanded(char c) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": \"", absl::string_view(&c, 1),
                     "\" is not expanded here; write the value, or use --script"));
  }

  void Append(char c) {
    in_word_ = true;
    word_.push_back(c);
    Advance();
  }

  void Advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }

  void EndWord() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  absl::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool in_word_ = false;
  std::string word_;
  std::vector<std::string> words_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseArgumentText(absl::string_view text) {
  // A NUL cannot be part of an argument.
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("holds a NUL byte");
  }
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "[")) return ParseJsonList(text);
  return WordSplitter(text).Split();
}

}  // namespace hapmoe::client
