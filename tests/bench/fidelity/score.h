// Scores of predictions against measured training runs.
#ifndef HAPMOE_TESTS_BENCH_FIDELITY_SCORE_H_
#define HAPMOE_TESTS_BENCH_FIDELITY_SCORE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hapmoe::fidelity {

// Which figure of a prediction a measured memory is compared with.
enum class MemoryKind { kAllocated, kReserved, kDevice };

// One measured run with what was predicted for it. Absent: not published, or not predicted.
struct MeasuredRun {
  std::string id;
  std::string family;
  bool current = false;      // 16 or 8 bit on A100 and later, with a stack of 2021 or later.
  std::string inconsistent;  // Why the source contradicts the arguments; empty where it does not.
  std::optional<double> measured_seconds;
  std::optional<double> predicted_seconds;
  bool routes = false;                // To experts.
  double table_share = 0;             // Of the arithmetic's time, looked up in tables.
  std::optional<double> low_seconds;  // The band around the prediction.
  std::optional<double> high_seconds;
  std::optional<double> measured_bytes;
  MemoryKind memory_kind = MemoryKind::kAllocated;
  std::string memory_label;
  std::map<MemoryKind, double> predicted_bytes;
  bool out_of_memory = false;  // Measured.
  std::optional<bool> fits;    // Predicted.
  // What decides about memory was published: recomputation above all.
  bool memory_known = true;
  std::string error;
};

// Relative errors, prediction over measurement less one.
struct Errors {
  int count = 0;
  double mean = 0;    // Of the absolute values.
  double median = 0;  // Of the absolute values.
  double bias = 0;    // Mean with sign.
  double worst = 0;   // Of the absolute values.
};

Errors ErrorsOf(const std::vector<double>& errors);

// Kendall's tau-a over all pairs that differ in both; nothing with no such pair. `pairs` hold
// (predicted, measured).
std::optional<double> KendallTau(const std::vector<std::pair<double, double>>& pairs);

// Measured value of the pair predicted smallest, over the smallest measured. `pairs` is not empty.
double Regret(const std::vector<std::pair<double, double>>& pairs);

// Detection of runs that ran out of memory.
struct Detection {
  int caught = 0;
  int missed = 0;
  int false_alarms = 0;
  int ran = 0;  // Runs that did not run out of memory.
};

Detection DetectionOf(const std::vector<MeasuredRun>& runs);

}  // namespace hapmoe::fidelity

#endif  // HAPMOE_TESTS_BENCH_FIDELITY_SCORE_H_
