// The search against the planners that eth-easl/sailor compares, on its profiles and by its
// formulas.
//
//   sailor --data=DIRECTORY
//
// Prints a line for each cluster of clusters.json. Exits with 1 where a plan is slower than the
// best that is listed, is not what its cost function says, or takes more processor time than the
// limit.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/sailor/plan_search.h"

ABSL_FLAG(std::string, data, "", "directory of clusters.json and the profiles");

namespace hapmoe::bench::sailor {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr double kMostCpuSeconds = 0.2;
// Figures of others are printed with three digits.
constexpr double kRounding = 0.0005;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "sailor: " << what << "\n";
  std::exit(2);
}

std::string ReadFile(const std::string& name) {
  std::ifstream file(absl::GetFlag(FLAGS_data) + "/" + name, std::ios::binary);
  if (!file) Die("cannot read " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const Value& At(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  if (field == object.fields().end()) Die("clusters.json misses " + key);
  return field->second;
}

const Profile& ProfileOf(const std::string& name) {
  static std::map<std::string, Profile>& profiles = *new std::map<std::string, Profile>;
  const auto known = profiles.find(name);
  if (known != profiles.end()) return known->second;
  auto profile = ParseProfile(ReadFile(name + ".json"));
  if (!profile.ok()) Die(absl::StrCat(name, ": ", profile.status().message()));
  return profiles.emplace(name, *std::move(profile)).first->second;
}

// One cluster: true where nothing is amiss.
bool Compare(const Struct& cluster) {
  const std::string model = At(cluster, "model").string_value();
  Task task;
  task.profile = &ProfileOf(model);
  task.global_batch = static_cast<int64_t>(At(cluster, "global_batch").number_value());
  task.accelerators.assign(task.profile->types.size(), 0);
  std::string name = model;
  for (const auto& type : task.profile->types) {
    const auto& counts = At(cluster, "accelerators").struct_value().fields();
    const auto count = counts.find(type.name);
    if (count == counts.end()) continue;
    const int64_t number = static_cast<int64_t>(count->second.number_value());
    task.accelerators[static_cast<size_t>(task.profile->TypeOf(type.name))] = number;
    absl::StrAppend(&name, " ", number, " ", type.name);
  }
  std::string fastest_name = "none listed";
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [planner, value] : At(cluster, "seconds").struct_value().fields()) {
    const double seconds = value.number_value();
    // The map has no order; of equals the first by name is printed.
    if (seconds > fastest || (seconds == fastest && planner > fastest_name)) continue;
    fastest = seconds;
    fastest_name = planner;
  }
  // The least of a few runs: other work on the machine does not count.
  double cpu = std::numeric_limits<double>::infinity();
  Answer answer;
  for (int run = 0; run < 3; ++run) {
    const double start = CpuSeconds();
    answer = FindPlan(task);
    cpu = std::min(cpu, CpuSeconds() - start);
  }
  std::string fault;
  if (!answer.plan.has_value()) {
    fault = "no plan";
  } else {
    const double seconds = IterationSeconds(*task.profile, task.global_batch, *answer.plan);
    if (!Fits(*task.profile, *answer.plan)) fault = "does not fit";
    if (std::abs(seconds - answer.seconds) > 1e-9 * seconds) fault = "is not what it costs";
    if (seconds > fastest + kRounding) fault = "slower";
  }
  if (fault.empty() && cpu > kMostCpuSeconds) fault = "over the limit of processor time";
  const std::string listed = std::isfinite(fastest) ? absl::StrFormat("%.3f", fastest) : "-";
  absl::PrintF("%-46s %8s %-12s %8.3f %8.1f %8d %3d/%-3d %s%s\n", name, listed, fastest_name,
               answer.seconds, cpu * 1e3, answer.labels, answer.searched, answer.candidates,
               answer.plan.has_value() ? Describe(*task.profile, *answer.plan) : "",
               fault.empty() ? "" : "  FAULT: " + fault);
  return fault.empty();
}

int Run() {
  Struct file;
  if (!google::protobuf::util::JsonStringToMessage(ReadFile("clusters.json"), &file).ok()) {
    Die("clusters.json is not JSON");
  }
  absl::PrintF("%-46s %8s %-12s %8s %8s %8s %7s %s\n", "cluster", "fastest", "of", "ours", "cpu ms",
               "labels", "exact", "plan: replicas, micro-batch, type/degree/layers from the front");
  bool good = true;
  for (const Value& cluster : At(file, "clusters").list_value().values()) {
    good &= Compare(cluster.struct_value());
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace hapmoe::bench::sailor

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return hapmoe::bench::sailor::Run();
}
