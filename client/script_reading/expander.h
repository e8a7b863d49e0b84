// Expansion of words: parameters, substitutions, splitting, patterns of file names.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_EXPANDER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_EXPANDER_H_

#include <optional>
#include <string>
#include <vector>

#include "client/script_reading/interpreter.h"
#include "client/script_reading/state.h"
#include "client/script_reading/syntax.h"

namespace hapmoe::client::shell {

class Expander {
 public:
  Expander(Interpreter& interpreter, Shell& shell) : interpreter_(interpreter), shell_(shell) {}

  // As arguments of a command.
  std::vector<std::string> Words(const Word& word);
  // As one string, for an assignment, say.
  std::string Text(const Word& word);
  // As a pattern, where what is quoted stands for itself.
  std::string Pattern(const Word& word);

 private:
  // A word in the making.
  struct Field {
    std::string text;
    std::string pattern;
    bool present = false;  // Also where it is empty.
    bool has_pattern = false;
  };
  struct Value {
    std::vector<std::string> words;
    bool is_list = false;  // "$@" and its like: words of their own also inside of quotes.
    bool is_set = true;
  };

  void Add(const Word& word, bool quoted, bool split = false);
  void AddPart(const Part& part, bool quoted);
  void AddParameter(const Parameter& parameter, bool quoted);
  void AddOperand(const Word& operand, bool quoted);
  void AddValue(const Value& value, bool quoted);
  void AddQuoted(absl::string_view text);
  void AddUnquoted(absl::string_view text, bool split);
  void EndField();
  std::vector<std::string> Finish(const Field& field);
  void Braces(const Word& word, std::vector<Word>& results);

  Value Look(const Parameter& parameter);
  Value LookNamed(const std::string& name);
  Value LookSpecial(char name);
  Value LookArray(const Parameter& parameter);
  std::string Modify(const Parameter& parameter, const std::string& value);
  std::optional<int64_t> Number(const Word& word);
  Value Slice(const Parameter& parameter, const Value& value);
  void AssignDefault(const Parameter& parameter, const std::string& value);
  std::string Separators() const;

  Interpreter& interpreter_;
  Shell& shell_;
  bool splitting_ = true;
  Field field_;
  std::vector<Field> fields_;
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_EXPANDER_H_
