// Variables: assignments, and the builtins that declare.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/expander.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {
namespace {

constexpr int64_t kLargestIndex = int64_t{1} << 40;

}  // namespace

void Interpreter::SetValue(Shell& shell, const std::string& name, std::string value) {
  if (name.empty() || !IsNameStart(name[0]) ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return Fail(absl::StrCat("\"", name, "\" is no name of a variable"));
  }
  Charge(value.size());
  Variable& variable = shell.variables[name];
  if (variable.is_read_only) return Fail(absl::StrCat(name, " is read-only"));
  if (variable.is_integer) {
    int unknown = -1;
    const std::optional<int64_t> number = Arithmetic(shell, value, line_, unknown);
    value = unknown >= 0 ? UnknownMark(unknown) : absl::StrCat(number.value_or(0));
  }
  variable.is_set = true;
  variable.exported |= shell.export_all;
  if (variable.is_array) {
    variable.items[0] = std::move(value);
  } else if (variable.is_map) {
    variable.entries["0"] = std::move(value);
  } else {
    variable.value = std::move(value);
  }
}

void Interpreter::SetElement(Shell& shell, const std::string& name, absl::string_view index,
                             std::string value, bool append) {
  Charge(value.size() + 1);
  Variable& variable = shell.variables[name];
  if (variable.is_read_only) return Fail(absl::StrCat(name, " is read-only"));
  if (variable.is_integer) return Fail("arrays of integers are not read");
  variable.is_set = true;
  if (variable.is_map) {
    std::string& entry = variable.entries[std::string(index)];
    entry = append ? entry + value : std::move(value);
    return;
  }
  int unknown = -1;
  std::optional<int64_t> number = Arithmetic(shell, std::string(index), line_, unknown);
  if (unknown >= 0) return FailFor(unknown, "an index");
  if (!number.has_value()) return;
  if (!variable.is_array) {
    variable.is_array = true;
    if (!variable.value.empty()) variable.items[0] = std::exchange(variable.value, "");
  }
  if (*number < 0 && !variable.items.empty()) *number += variable.items.rbegin()->first + 1;
  if (*number < 0) return Fail("a negative index");
  if (*number > kLargestIndex) return Fail("a very large index is not read");
  std::string& item = variable.items[*number];
  item = append ? item + value : std::move(value);
}

void Interpreter::Assign(Shell& shell, const Assignment& assignment, bool exported) {
  const std::string& name = assignment.name;
  if (!Charge(10)) return;
  if (assignment.has_index) {
    const std::string index = Expander(*this, shell).Text(assignment.index);
    std::string value = Expander(*this, shell).Text(assignment.value);
    return SetElement(shell, name, index, std::move(value), assignment.append);
  }
  if (!assignment.is_array) {
    std::string value = Expander(*this, shell).Text(assignment.value);
    if (assignment.append) {
      const Variable* old = shell.Find(name);
      std::string before = old == nullptr ? "" : old->value;
      if (old != nullptr && old->is_integer) {
        before = absl::StrCat(before.empty() ? "0" : before, "+", value);
        value = "";
      } else if (old != nullptr && old->is_array) {
        const auto first = old->items.find(0);
        before = first == old->items.end() ? "" : first->second;
      } else if (old != nullptr && old->is_map) {
        return Fail("+= of a map is not read");
      }
      value = before + value;
    }
    SetValue(shell, name, std::move(value));
    if (exported) shell.variables[name].exported = true;
    return;
  }
  // All elements are expanded before the first is assigned: an array may hold itself.
  std::vector<std::pair<std::string, std::string>> elements;
  const Variable* old = shell.Find(name);
  const bool map = old != nullptr && old->is_map;
  int64_t next = 0;
  if (assignment.append && old != nullptr && !map) {
    next = old->is_array ? (old->items.empty() ? 0 : old->items.rbegin()->first + 1)
                         : (old->is_set ? 1 : 0);
  }
  for (const Assignment& element : assignment.elements) {
    if (element.has_index) {
      std::string index = Expander(*this, shell).Text(element.index);
      if (!map) {
        int unknown = -1;
        const std::optional<int64_t> number = Arithmetic(shell, index, line_, unknown);
        if (unknown >= 0) FailFor(unknown, "an index");
        if (!number.has_value() || failed()) return;
        if (*number > kLargestIndex) return Fail("a very large index is not read");
        next = *number + 1;
      }
      elements.emplace_back(std::move(index), Expander(*this, shell).Text(element.value));
      continue;
    }
    if (map) return Fail("a map without keys is not read");
    split_unknown_ = -1;
    for (std::string& word : Expander(*this, shell).Words(element.value)) {
      elements.emplace_back(absl::StrCat(next++), std::move(word));
    }
    if (split_unknown_ >= 0) {
      FailFor(std::exchange(split_unknown_, -1), absl::StrCat("the number of elements of ", name));
    }
  }
  if (failed()) return;
  Variable& variable = shell.variables[name];
  if (variable.is_read_only) return Fail(absl::StrCat(name, " is read-only"));
  if (!assignment.append) {
    variable.items.clear();
    variable.entries.clear();
    variable.value.clear();
  }
  variable.is_set = true;
  if (!map && !variable.is_array) {
    variable.is_array = true;
    if (assignment.append && !variable.value.empty()) {
      variable.items[0] = std::exchange(variable.value, "");
    }
  }
  for (auto& [index, value] : elements) {
    SetElement(shell, name, index, std::move(value), false);
  }
}

// declare, typeset, local, export and readonly.
Flow Interpreter::Declare(Shell& shell, const std::vector<std::string>& options,
                          const std::vector<std::pair<std::string, const Assignment*>>& operands) {
  const std::string& name = options[0];
  const bool local =
      name == "local" || ((name == "declare" || name == "typeset") && !shell.hidden.empty());
  bool exported = name == "export";
  bool unexported = false;
  bool global = false;
  bool functions = false;
  bool read_only = name == "readonly";
  bool integer = false;
  bool array = false;
  bool map = false;
  shell.status = {};
  for (const auto& [text, assignment] : operands) {
    if (assignment == nullptr && (text == name || text == "--")) continue;
    if (assignment == nullptr && text.size() > 1 && (text[0] == '-' || text[0] == '+')) {
      for (const char option : text.substr(1)) {
        if (option == 'x') exported = text[0] == '-';
        if (option == 'r') read_only = true;
        if (option == 'i') integer = text[0] == '-';
        if (option == 'a') array = true;
        if (option == 'A') map = true;
        if (option == 'g') global = true;
        if (option == 'n' && name == "export") unexported = true;
        if (option == 'f' || option == 'F' || option == 'p') functions = true;
        if (!absl::StrContains("xriaAgfFpn", option) || (option == 'n' && name != "export")) {
          Fail(absl::StrCat(name, " ", text, " is not read"));
        }
      }
      continue;
    }
    if (functions) continue;
    Assignment plain;
    std::string value;
    const size_t equals = text.find('=');
    bool has_value = assignment != nullptr;
    if (assignment == nullptr) {
      plain.name = text.substr(0, equals);
      has_value = equals != std::string::npos;
      if (has_value) value = text.substr(equals + 1);
      if (absl::EndsWith(plain.name, "+")) Fail("an assignment of a form that is not read");
      if (HasUnknown(plain.name)) FailFor(FirstUnknown(plain.name), "the name of a variable");
    }
    const std::string& variable_name = assignment != nullptr ? assignment->name : plain.name;
    if (failed()) return Flow::kExit;
    if (local && !global) {
      auto& hidden = shell.hidden;
      if (hidden.empty()) {
        Fail("local outside of a function");
        return Flow::kExit;
      }
      const auto it = shell.variables.find(variable_name);
      const bool first = hidden.back()
                             .try_emplace(variable_name, it == shell.variables.end()
                                                             ? std::nullopt
                                                             : std::optional<Variable>(it->second))
                             .second;
      // The value is expanded before the name is hidden: local x=$x.
      if (first && assignment != nullptr && !assignment->is_array && !assignment->has_index &&
          !assignment->append) {
        plain.name = variable_name;
        value = Expander(*this, shell).Text(assignment->value);
        Variable fresh;
        fresh.exported = it != shell.variables.end() && it->second.exported;
        shell.variables[plain.name] = fresh;
        shell.variables[plain.name].is_integer = integer;
        SetValue(shell, plain.name, value);
        shell.variables[plain.name].exported |= exported;
        shell.variables[plain.name].is_read_only = read_only;
        continue;
      }
      if (first) {
        if (assignment != nullptr && assignment->is_array && !map) {
          // The elements are expanded before the old value, which is kept, is replaced.
          Assign(shell, *assignment, false);
          continue;
        }
        shell.variables[variable_name] = Variable();
      }
    }
    Variable& variable = shell.variables[variable_name];
    variable.is_integer |= integer;
    if (map) variable.is_map = true;
    if (array && !variable.is_array && !variable.is_map) {
      variable.is_array = true;
      if (variable.is_set) variable.items[0] = std::exchange(variable.value, "");
    }
    if (assignment != nullptr) {
      Assign(shell, *assignment, false);
    } else if (has_value) {
      SetValue(shell, plain.name, value);
    }
    Variable& after = shell.variables[variable_name];
    after.exported = (after.exported || exported) && !unexported;
    after.is_read_only |= read_only;
  }
  return failed() ? Flow::kExit : Flow::kNext;
}

}  // namespace hapmoe::client::shell
