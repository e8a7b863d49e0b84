#include "tests/cases/case_file.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace hapmoe::testing {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

absl::Status Fault(absl::string_view what, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", where));
}

std::string Text(const Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? "" : found->second.string_value();
}

std::vector<std::string> Texts(const Struct& object, const std::string& key) {
  std::vector<std::string> texts;
  const auto found = object.fields().find(key);
  if (found == object.fields().end()) return texts;
  for (const Value& value : found->second.list_value().values()) {
    texts.push_back(value.string_value());
  }
  return texts;
}

absl::Status CheckKeys(const Struct& object, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.fields()) {
    if (known.count(key) == 0) return Fault("unknown key", key);
  }
  return absl::OkStatus();
}

absl::Status ReadMessage(const Struct& object, const std::string& key,
                         google::protobuf::Message& message) {
  const auto found = object.fields().find(key);
  if (found == object.fields().end()) return absl::OkStatus();
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(found->second, &json).ok() ||
      !google::protobuf::util::JsonStringToMessage(json, &message).ok()) {
    return Fault("does not parse", key);
  }
  return absl::OkStatus();
}

absl::Status ReadCluster(absl::string_view text, double host_memory_bytes, v1::Cluster& cluster) {
  for (const absl::string_view part : absl::StrSplit(text, " + ")) {
    const std::vector<std::string> words = absl::StrSplit(part, ' ');
    const std::vector<std::string> sizes = absl::StrSplit(words[0], 'x');
    uint32_t nodes = 0;
    uint32_t accelerators = 0;
    if ((words.size() != 2 && words.size() != 4) || sizes.size() != 2 ||
        !absl::SimpleAtoi(sizes[0], &nodes) || !absl::SimpleAtoi(sizes[1], &accelerators)) {
      return Fault("not a pool", part);
    }
    v1::Pool& pool = *cluster.add_pools();
    pool.set_name(absl::StrCat("pool", cluster.pools_size()));
    pool.set_accelerator(words[1]);
    pool.set_nodes(nodes);
    pool.set_accelerators_per_node(accelerators);
    pool.set_host_memory_bytes(host_memory_bytes);
    double bytes = 0;
    if (words.size() == 4) {
      if (words[2] != "at" || !absl::SimpleAtod(words[3], &bytes)) return Fault("not a pool", part);
      pool.mutable_network()->set_bytes_per_second(bytes);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Question> ReadQuestion(const Struct& models, const Struct& object) {
  absl::Status status = CheckKeys(
      object, {"model", "args", "cluster", "plan", "constraints", "headroom", "router_statistics",
               "host_memory_bytes", "imbalance_quantile", "refused_with", "says"});
  if (!status.ok()) return status;
  Question run;
  const auto flag = object.fields().find("plan");
  run.plan = flag != object.fields().end() && flag->second.bool_value();
  const std::string model = Text(object, "model");
  if (models.fields().count(model) == 0) return Fault("no such model", model);
  const std::string arguments = absl::StrCat(Text(models, model), " ", Text(object, "args"));
  for (const absl::string_view word : absl::StrSplit(arguments, ' ', absl::SkipEmpty())) {
    run.problem.mutable_job()->add_megatron_args(std::string(word));
  }
  const auto host = object.fields().find("host_memory_bytes");
  status = ReadCluster(Text(object, "cluster"),
                       host == object.fields().end() ? 0 : host->second.number_value(),
                       *run.problem.mutable_cluster());
  if (!status.ok()) return status;
  status = ReadMessage(object, "constraints", *run.problem.mutable_constraints());
  if (!status.ok()) return status;
  if (object.fields().count("router_statistics") > 0) {
    status = ReadMessage(object, "router_statistics",
                         *run.problem.mutable_job()->mutable_router_statistics());
    if (!status.ok()) return status;
  }
  const auto quantile = object.fields().find("imbalance_quantile");
  if (quantile != object.fields().end()) {
    run.problem.mutable_job()->set_imbalance_quantile(quantile->second.number_value());
  }
  const auto headroom = object.fields().find("headroom");
  if (headroom != object.fields().end()) {
    run.problem.mutable_constraints()->set_memory_headroom_ratio(headroom->second.number_value());
  }
  run.refused_with = Texts(object, "refused_with");
  run.says = Texts(object, "says");
  return run;
}

absl::StatusOr<Case> ReadCase(const Struct& models, const Struct& object) {
  absl::Status status = CheckKeys(object, {"id", "name", "source", "note", "runs", "expect"});
  if (!status.ok()) return status;
  Case one;
  one.id = Text(object, "id");
  one.name = Text(object, "name");
  one.source = Text(object, "source");
  one.note = Text(object, "note");
  one.expect = Texts(object, "expect");
  if (one.id.empty() || one.name.empty() || one.source.empty()) return Fault("no name", one.id);
  const auto runs = object.fields().find("runs");
  if (runs == object.fields().end()) return Fault("no runs", one.id);
  bool checked = !one.expect.empty();
  for (const auto& [name, value] : runs->second.struct_value().fields()) {
    absl::StatusOr<Question> run = ReadQuestion(models, value.struct_value());
    if (!run.ok()) return Fault(run.status().message(), one.id);
    checked |= !run->refused_with.empty() || !run->says.empty();
    one.runs.emplace(name, *std::move(run));
  }
  if (!checked) return Fault("nothing is expected", one.id);
  return one;
}

// What a path leads to: every leaf, where lists are on the way.
absl::Status Follow(const Value& value, absl::Span<const std::string> path,
                    std::vector<Value>& leaves) {
  if (value.kind_case() == Value::kListValue) {
    int index = 0;
    if (!path.empty() && absl::SimpleAtoi(path[0], &index)) {
      if (index < 0 || index >= value.list_value().values_size()) {
        return Fault("no such entry", path[0]);
      }
      return Follow(value.list_value().values(index), path.subspan(1), leaves);
    }
    for (const Value& each : value.list_value().values()) {
      absl::Status status = Follow(each, path, leaves);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  if (path.empty() || value.kind_case() != Value::kStructValue) {
    if (!path.empty()) return Fault("nothing below", path[0]);
    leaves.push_back(value);
    return absl::OkStatus();
  }
  const auto found = value.struct_value().fields().find(path[0]);
  if (found == value.struct_value().fields().end()) return Fault("no such field", path[0]);
  return Follow(found->second, path.subspan(1), leaves);
}

// Numbers of 64 bits are strings in JSON.
bool Number(const Value& value, double& number) {
  if (value.kind_case() == Value::kNumberValue) {
    number = value.number_value();
    return true;
  }
  if (value.kind_case() == Value::kBoolValue) {
    number = value.bool_value() ? 1 : 0;
    return true;
  }
  return value.kind_case() == Value::kStringValue &&
         absl::SimpleAtod(value.string_value(), &number);
}

absl::StatusOr<double> Term(absl::string_view term, const std::map<std::string, Struct>& answers) {
  double number = 0;
  if (absl::SimpleAtod(term, &number)) return number;
  if (term == "true") return 1;
  if (term == "false") return 0;
  const std::vector<std::string> parts = absl::StrSplit(term, absl::MaxSplits(':', 1));
  const std::string join = parts.size() == 2 ? parts[0] : "";
  const std::vector<std::string> path = absl::StrSplit(parts.back(), '.');
  const auto answer = answers.find(path[0]);
  if (answer == answers.end()) return Fault("no such run", path[0]);
  Value root;
  *root.mutable_struct_value() = answer->second;
  std::vector<Value> leaves;
  absl::Status status = Follow(root, absl::MakeConstSpan(path).subspan(1), leaves);
  if (!status.ok()) return status;
  if (join == "count") return static_cast<double>(leaves.size());
  if (leaves.empty() || (leaves.size() > 1 && join.empty())) return Fault("not one value", term);
  double sum = 0;
  double most = -INFINITY;
  for (const Value& leaf : leaves) {
    if (!Number(leaf, number)) return Fault("not a number", term);
    sum += number;
    most = std::max(most, number);
  }
  if (join.empty() || join == "max") return most;
  if (join == "sum") return sum;
  if (join == "mean") return sum / static_cast<double>(leaves.size());
  return Fault("unknown way to join", join);
}

absl::StatusOr<double> Side(absl::Span<const std::string> words,
                            const std::map<std::string, Struct>& answers) {
  if (words.size() % 2 == 0) return Fault("not a side", absl::StrJoin(words, " "));
  absl::StatusOr<double> value = Term(words[0], answers);
  for (size_t i = 1; value.ok() && i < words.size(); i += 2) {
    const absl::StatusOr<double> next = Term(words[i + 1], answers);
    if (!next.ok()) return next.status();
    if (words[i] == "+") {
      *value += *next;
    } else if (words[i] == "-") {
      *value -= *next;
    } else if (words[i] == "*") {
      *value *= *next;
    } else if (words[i] == "/") {
      *value /= *next;
    } else {
      return Fault("unknown operator", words[i]);
    }
  }
  return value;
}

absl::StatusOr<bool> Compare(double left, const std::string& op, double right) {
  double share = 0;
  if (op == "==") return left == right;
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  if (op == ">=") return left >= right;
  if (absl::StartsWith(op, "~") && absl::SimpleAtod(op.substr(1), &share)) {
    return std::abs(left - right) <= share * std::abs(right);
  }
  return Fault("unknown operator", op);
}

}  // namespace

absl::StatusOr<std::vector<Case>> ReadCases(absl::string_view json) {
  Struct root;
  if (!google::protobuf::util::JsonStringToMessage(std::string(json), &root).ok()) {
    return Fault("not JSON", "the file");
  }
  if (absl::Status status = CheckKeys(root, {"models", "cases"}); !status.ok()) return status;
  const Struct& models = root.fields().at("models").struct_value();
  std::vector<Case> cases;
  for (const Value& value : root.fields().at("cases").list_value().values()) {
    absl::StatusOr<Case> one = ReadCase(models, value.struct_value());
    if (!one.ok()) return one.status();
    cases.push_back(*std::move(one));
  }
  return cases;
}

absl::StatusOr<bool> Holds(absl::string_view expectation,
                           const std::map<std::string, Struct>& answers, std::string& explanation) {
  const std::vector<std::string> words = absl::StrSplit(expectation, ' ', absl::SkipEmpty());
  const auto op = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return absl::StartsWith(word, "~") || word == "==" || word[0] == '<' || word[0] == '>';
  });
  if (op == words.end()) return Fault("compares nothing", expectation);
  const size_t split = static_cast<size_t>(op - words.begin());
  const absl::Span<const std::string> all = absl::MakeConstSpan(words);
  const absl::StatusOr<double> left = Side(all.subspan(0, split), answers);
  if (!left.ok()) return left.status();
  const absl::StatusOr<double> right = Side(all.subspan(split + 1), answers);
  if (!right.ok()) return right.status();
  explanation = absl::StrCat(*left, " ", *op, " ", *right);
  return Compare(*left, *op, *right);
}

}  // namespace hapmoe::testing
