// Prints how far predictions are from measured training runs, and holds the figures to floors.
//
//   fidelity --cases=CASES.jsonl --predictions=PREDICTIONS.jsonl [--groups=GROUPS.json]
//            [--floors=FLOORS.json --section=NAME]
//
// Cases are lines for `hapmoe evaluate --batch` with a "measured" part, predictions are its
// answers. Floors name a limit for figures of a section; a figure beyond its limit fails the run.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/fidelity/score.h"

ABSL_FLAG(std::string, cases, "", "measured cases, one JSON object a line");
ABSL_FLAG(std::string, predictions, "", "predictions, one JSON object a line");
ABSL_FLAG(std::string, groups, "", "sets of cases that differ in their layout only");
ABSL_FLAG(std::string, floors, "", "limits that figures must keep");
ABSL_FLAG(std::string, section, "", "section of the limits");

namespace hapmoe::fidelity {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "fidelity: " << what << "\n";
  std::exit(2);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Die("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename Message>
Message Parse(const std::string& text, const std::string& where) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message);
  if (!status.ok()) Die(where + " is not the JSON that is expected");
  return message;
}

std::vector<Struct> ReadLines(const std::string& path) {
  std::vector<Struct> lines;
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) lines.push_back(Parse<Struct>(line, path));
  }
  return lines;
}

std::string TextAt(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  return field == object.fields().end() ? "" : field->second.string_value();
}

std::optional<double> NumberAt(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  if (field == object.fields().end() || !field->second.has_number_value()) return std::nullopt;
  return field->second.number_value();
}

bool TrueAt(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  return field != object.fields().end() && field->second.bool_value();
}

MemoryKind KindOf(const std::string& label) {
  for (const char* word : {"alloc", "max_mem", "iter "}) {
    if (absl::StrContains(label, word)) return MemoryKind::kAllocated;
  }
  if (absl::StrContains(label, "reserved")) return MemoryKind::kReserved;
  return MemoryKind::kDevice;
}

MeasuredRun ReadCase(const Struct& c) {
  MeasuredRun run;
  run.id = TextAt(c, "id");
  run.family = TextAt(c, "family");
  run.current = TrueAt(c, "current");
  run.inconsistent = TextAt(c, "inconsistent");
  run.memory_known = true;
  if (const auto open = c.fields().find("approximate"); open != c.fields().end()) {
    for (const Value& what : open->second.list_value().values()) {
      const std::string& name = what.string_value();
      // What decides which tensors there are.
      if (name == "recompute" || name == "etp") run.memory_known = false;
    }
  }
  const auto measured = c.fields().find("measured");
  if (measured == c.fields().end()) Die("case " + run.id + " has no measured part");
  const Struct& part = measured->second.struct_value();
  run.measured_seconds = NumberAt(part, "iteration_seconds");
  if (const auto memory = NumberAt(part, "peak_memory_gib")) {
    run.measured_bytes = *memory * kGibibyte;
    run.memory_label = TextAt(part, "memory_kind");
    run.memory_kind = KindOf(run.memory_label);
  }
  run.out_of_memory = TrueAt(part, "oom");
  if (const auto words = c.fields().find("megatron_args"); words != c.fields().end()) {
    for (const Value& word : words->second.list_value().values()) {
      run.routes |= word.string_value() == "--num-experts";
    }
  }
  return run;
}

void AddPrediction(const Struct& prediction, MeasuredRun& run) {
  run.error = TextAt(prediction, "error");
  run.predicted_seconds = NumberAt(prediction, "iteration_seconds");
  run.low_seconds = NumberAt(prediction, "low_iteration_seconds");
  run.high_seconds = NumberAt(prediction, "high_iteration_seconds");
  if (const auto basis = prediction.fields().find("basis"); basis != prediction.fields().end()) {
    const Struct& ratios = basis->second.struct_value();
    const auto ratio = [&](const std::string& key) { return NumberAt(ratios, key).value_or(0); };
    const double tables = ratio("measured_ratio") + ratio("interpolated_ratio");
    const double arithmetic = tables + ratio("analytic_ratio");
    if (arithmetic > 0) run.table_share = tables / arithmetic;
  }
  const auto bytes = [&](MemoryKind kind, const std::string& key) {
    if (const auto number = NumberAt(prediction, key)) run.predicted_bytes[kind] = *number;
  };
  bytes(MemoryKind::kAllocated, "allocated_memory_bytes");
  bytes(MemoryKind::kReserved, "reserved_memory_bytes");
  bytes(MemoryKind::kDevice, "device_memory_bytes");
  if (run.predicted_seconds.has_value()) run.fits = TrueAt(prediction, "fits");
}

// Prints figures and remembers them by name, for the floors.
class Report {
 public:
  void Line(const std::string& name, const Errors& errors) {
    if (errors.count == 0) return;
    std::printf("%-46s n=%-4d mean %5.1f %%  median %5.1f %%  bias %+6.1f %%  worst %6.1f %%\n",
                name.c_str(), errors.count, 100 * errors.mean, 100 * errors.median,
                100 * errors.bias, 100 * errors.worst);
    Set(name + " mean", errors.mean);
    Set(name + " median", errors.median);
    Set(name + " bias", std::abs(errors.bias));
  }
  void Set(const std::string& name, double value) { figures_[name] = value; }

  // Figures beyond their limit. A limit is {"figure": [least, most]}.
  int Check(const Struct& limits) const {
    int failures = 0;
    for (const auto& [name, limit] : limits.fields()) {
      const auto figure = figures_.find(name);
      const ListValue& range = limit.list_value();
      if (figure == figures_.end() || range.values_size() != 2) {
        std::printf("FLOOR  %s: no such figure, or no range\n", name.c_str());
        ++failures;
        continue;
      }
      const double least = range.values(0).number_value();
      const double most = range.values(1).number_value();
      if (figure->second >= least && figure->second <= most) continue;
      std::printf("FLOOR  %s is %.4g, not within %.4g and %.4g\n", name.c_str(), figure->second,
                  least, most);
      ++failures;
    }
    return failures;
  }

 private:
  std::map<std::string, double> figures_;
};

// How often measured times lie in their bands, and how wide those are.
struct Bands {
  int count = 0;
  int inside = 0;
  double width = 0;  // Half widths, all together.

  void Add(const MeasuredRun& run) {
    ++count;
    if (*run.measured_seconds >= *run.low_seconds && *run.measured_seconds <= *run.high_seconds) {
      ++inside;
    }
    width += (*run.high_seconds - *run.low_seconds) / (2 * *run.predicted_seconds);
  }
  void Print(const std::string& name, Report& report) const {
    if (count == 0) return;
    const double share = static_cast<double>(inside) / count;
    std::printf("%-46s %d of %d inside (%.1f %%), mean half width %.1f %%\n", name.c_str(), inside,
                count, 100 * share, 100 * width / count);
    report.Set(name + " inside", share);
    report.Set(name + " half width", width / count);
  }
};

// Of the arithmetic's time: with so much of it looked up, tables cover a job.
constexpr double kCovered = 0.7;

void ScoreTimes(const std::vector<MeasuredRun>& runs, Report& report) {
  std::map<std::string, std::vector<double>> families;
  std::vector<double> current;
  std::vector<double> consistent;
  std::vector<double> older;
  std::map<std::string, int> unpredicted;
  Bands bands;
  Bands covered;
  Bands covered_dense;
  for (const MeasuredRun& run : runs) {
    if (!run.error.empty()) ++unpredicted[run.family];
    if (!run.measured_seconds.has_value() || !run.predicted_seconds.has_value()) continue;
    const double error = *run.predicted_seconds / *run.measured_seconds - 1;
    families[run.family].push_back(error);
    (run.current ? current : older).push_back(error);
    if (run.current && run.inconsistent.empty()) consistent.push_back(error);
    if (run.current && run.inconsistent.empty() && run.low_seconds.has_value() &&
        run.high_seconds.has_value()) {
      bands.Add(run);
      if (run.table_share < kCovered) continue;
      covered.Add(run);
      if (!run.routes) covered_dense.Add(run);
    }
  }
  for (const auto& [family, errors] : families) report.Line("time " + family, ErrorsOf(errors));
  for (const auto& [family, count] : unpredicted) {
    std::printf("not predicted: %s %d\n", family.c_str(), count);
  }
  report.Line("time current stacks", ErrorsOf(current));
  report.Line("time current stacks, consistent sources", ErrorsOf(consistent));
  report.Line("time older stacks and fp32", ErrorsOf(older));
  bands.Print("band", report);
  covered.Print("band, tables cover the shapes", report);
  covered_dense.Print("band, tables cover the shapes, no experts", report);
}

void ScoreMemory(const std::vector<MeasuredRun>& runs, Report& report) {
  static constexpr std::pair<MemoryKind, const char*> kKinds[] = {
      {MemoryKind::kAllocated, "allocated"},
      {MemoryKind::kReserved, "reserved"},
      {MemoryKind::kDevice, "device"}};
  std::map<std::string, std::vector<double>> labels;
  for (const auto& [kind, name] : kKinds) {
    std::vector<double> known;
    std::vector<double> all;
    std::vector<double> consistent;
    int covered = 0;
    for (const MeasuredRun& run : runs) {
      const auto bytes = run.predicted_bytes.find(kind);
      if (!run.measured_bytes.has_value() || run.memory_kind != kind ||
          bytes == run.predicted_bytes.end()) {
        continue;
      }
      const double error = bytes->second / *run.measured_bytes - 1;
      all.push_back(error);
      if (run.memory_known) known.push_back(error);
      if (run.memory_known && run.inconsistent.empty()) consistent.push_back(error);
      labels[run.family + ", " + run.memory_label.substr(0, 40)].push_back(error);
      covered += error >= 0 ? 1 : 0;
    }
    report.Line(absl::StrCat("memory ", name), ErrorsOf(all));
    report.Line(absl::StrCat("memory ", name, ", arguments known"), ErrorsOf(known));
    report.Line(absl::StrCat("memory ", name, ", known and consistent"), ErrorsOf(consistent));
    if (!all.empty()) {
      report.Set(absl::StrCat("memory ", name, " at or above"),
                 static_cast<double>(covered) / static_cast<double>(all.size()));
    }
  }
  for (const auto& [label, errors] : labels) {
    report.Line("memory " + label, ErrorsOf(errors));
  }
  for (const bool known_only : {false, true}) {
    std::vector<MeasuredRun> chosen;
    for (const MeasuredRun& run : runs) {
      if (!known_only || (run.memory_known && run.inconsistent.empty())) chosen.push_back(run);
    }
    const Detection oom = DetectionOf(chosen);
    const std::string name = known_only ? "oom, known and consistent" : "oom";
    std::printf("%-46s caught %d, missed %d, false alarms %d of %d\n", name.c_str(), oom.caught,
                oom.missed, oom.false_alarms, oom.ran);
    if (oom.caught + oom.missed > 0) {
      report.Set(name + " recall",
                 static_cast<double>(oom.caught) / static_cast<double>(oom.caught + oom.missed));
    }
    if (oom.ran > 0) {
      report.Set(name + " false alarms", static_cast<double>(oom.false_alarms) / oom.ran);
    }
  }
}

void ScoreRanks(const std::vector<MeasuredRun>& runs, const ListValue& groups, Report& report) {
  std::map<std::string, const MeasuredRun*> by_id;
  for (const MeasuredRun& run : runs) by_id[run.id] = &run;
  int count = 0;
  int ranked = 0;
  double tau_sum = 0;
  double regret_sum = 0;
  double worst = 1;
  for (const Value& group : groups.values()) {
    std::vector<std::pair<double, double>> pairs;
    const Struct& object = group.struct_value();
    const auto ids = object.fields().find("ids");
    if (ids == object.fields().end()) Die("a group has no ids");
    for (const Value& id : ids->second.list_value().values()) {
      const auto run = by_id.find(id.string_value());
      if (run == by_id.end() || !run->second->predicted_seconds || !run->second->measured_seconds) {
        continue;
      }
      pairs.emplace_back(*run->second->predicted_seconds, *run->second->measured_seconds);
    }
    if (pairs.size() < 3) continue;
    ++count;
    const std::optional<double> tau = KendallTau(pairs);
    const double regret = Regret(pairs);
    if (tau.has_value()) {
      ++ranked;
      tau_sum += *tau;
    }
    regret_sum += regret;
    worst = std::max(worst, regret);
  }
  if (count == 0) return;
  std::printf("ranks  %d groups, mean tau %.2f, mean regret %.3f, worst regret %.3f\n", count,
              tau_sum / std::max(1, ranked), regret_sum / count, worst);
  report.Set("ranks tau", tau_sum / std::max(1, ranked));
  report.Set("ranks regret", regret_sum / count);
  report.Set("ranks worst regret", worst);
}

int ScoreAll() {
  std::vector<MeasuredRun> runs;
  std::map<std::string, size_t> index;
  for (const Struct& c : ReadLines(absl::GetFlag(FLAGS_cases))) {
    runs.push_back(ReadCase(c));
    index[runs.back().id] = runs.size() - 1;
  }
  size_t answered = 0;
  for (const Struct& prediction : ReadLines(absl::GetFlag(FLAGS_predictions))) {
    const auto run = index.find(TextAt(prediction, "id"));
    if (run == index.end()) continue;
    AddPrediction(prediction, runs[run->second]);
    ++answered;
  }
  std::printf("%zu cases, %zu answers\n", runs.size(), answered);
  if (answered != runs.size()) Die("some cases have no answer");
  Report report;
  ScoreTimes(runs, report);
  ScoreMemory(runs, report);
  if (const std::string groups = absl::GetFlag(FLAGS_groups); !groups.empty()) {
    ScoreRanks(runs, Parse<ListValue>(ReadFile(groups), groups), report);
  }
  if (const std::string floors = absl::GetFlag(FLAGS_floors); !floors.empty()) {
    const Struct limits = Parse<Struct>(ReadFile(floors), floors);
    const auto section = limits.fields().find(absl::GetFlag(FLAGS_section));
    if (section == limits.fields().end()) Die("no such section of floors");
    if (report.Check(section->second.struct_value()) > 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hapmoe::fidelity

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return hapmoe::fidelity::ScoreAll();
}
