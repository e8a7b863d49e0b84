// A bash script as a tree, of the part of bash that can be read without running it.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_SYNTAX_H_
#define HAPMOE_CLIENT_SCRIPT_READING_SYNTAX_H_

#include <memory>
#include <string>
#include <vector>

namespace hapmoe::client::shell {

struct Part;
struct Command;

// Commands that run one after the other.
using List = std::vector<Command>;

// A word before expansion: its parts follow each other without white space.
struct Word {
  int line = 0;
  std::vector<Part> parts;
};

// ${name[subscript] operation operand}
struct Parameter {
  enum class Subscript { kNone, kIndex, kAll, kAllJoined };  // x, x[i], x[@], x[*]

  std::string name;
  Subscript subscript = Subscript::kNone;
  Word index;             // Of kIndex.
  bool length = false;    // ${#x}
  bool indirect = false;  // ${!x}; with kAll, the indices.
  std::string operation;  // "", ":-", "##", "//", ":" and so on.
  Word operand;           // Default, pattern or offset.
  bool has_second = false;
  Word second;  // Replacement or length.
};

struct Part {
  enum class Kind { kText, kParameter, kCommands, kArithmetic, kProcess, kBody };

  Kind kind = Kind::kText;
  bool quoted = false;  // Not split, and no pattern.
  std::string text;     // Of a parameter, "$" where it has no braces.
  std::shared_ptr<const Parameter> parameter;
  std::shared_ptr<const List> commands;    // Of $(...), <(...) and >(...).
  std::shared_ptr<const Word> expression;  // Of $((...)), and the body of a here-document.
};

// name=value, name+=value, name[index]=value, name=(elements)
struct Assignment {
  std::string name;
  bool append = false;
  bool has_index = false;
  bool is_array = false;
  Word index;
  Word value;
  std::vector<Assignment> elements;  // Of an array; a name is empty, an index may be there.
};

struct Redirection {
  enum class Kind { kInput, kOutput, kAppend, kDuplicate, kText };  // kText: << and <<<

  Kind kind = Kind::kInput;
  int descriptor = -1;  // -1: the usual one; -2: both outputs.
  Word target;          // A file, a descriptor, or the text.
};

struct Clause {  // Of case: patterns and what they lead to.
  std::vector<Word> patterns;
  std::shared_ptr<const List> body;
  std::string end;  // ";;", ";&" or ";;&"
};

struct Command {
  enum class Kind {
    kSimple,
    kIf,          // children: condition, body, condition, body, ..., and perhaps a last body
    kWhile,       // children: condition, body
    kUntil,       // the same
    kFor,         // name, words; children: body
    kForSteps,    // words: three expressions; children: body
    kCase,        // words: the subject; clauses
    kGroup,       // children: body
    kSubshell,    // children: body
    kFunction,    // name; children: body
    kCondition,   // [[ words ]]
    kArithmetic,  // (( words[0] ))
    kPipeline,    // children: lists of one command; negated
    kAnd,         // children: two lists of one command
    kOr,          // the same
    kBackground,  // children: a list of one command
  };

  Kind kind = Kind::kSimple;
  int line = 0;
  std::string name;
  bool negated = false;
  bool has_words = true;  // Of for: false where it goes over "$@".
  std::vector<Assignment> assignments;
  std::vector<Word> words;
  std::vector<Redirection> redirections;
  std::vector<std::shared_ptr<const List>> children;
  std::vector<Clause> clauses;
  // Of a simple command, in parallel to words: arrays that are given to declare and its like.
  std::vector<std::shared_ptr<const Assignment>> declared;
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_SYNTAX_H_
