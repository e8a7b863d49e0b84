#include "server/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace hapmoe::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Figure(const char* name, const char* help, MetricType type, double value) {
  ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {name, help, type, {metric}};
}

// Fields of /proc/self/stat after the program's name, from the third field (proc(5)) on.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

// Field of that number in proc(5), or 0.
double Field(const std::vector<std::string>& fields, size_t number) {
  const size_t index = number - 3;
  return index < fields.size() ? std::strtod(fields[index].c_str(), nullptr) : 0;
}

double BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double value = 0;
    if (word == "btime" && file >> value) return value;
  }
  return 0;
}

double OpenFiles() {
  std::error_code error;
  double count = 0;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return count > 0 ? count - 1 : 0;  // One of them is this iterator's.
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  const std::vector<std::string> fields = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  return {
      Figure("process_cpu_seconds_total", "Processor time, user and system together.",
             MetricType::Counter, (Field(fields, 14) + Field(fields, 15)) / ticks),
      Figure("process_resident_memory_bytes", "Memory in RAM.", MetricType::Gauge,
             Field(fields, 24) * page),
      Figure("process_virtual_memory_bytes", "Address space in use.", MetricType::Gauge,
             Field(fields, 23)),
      Figure("process_open_fds", "Open file descriptors.", MetricType::Gauge, OpenFiles()),
      Figure("process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge,
             static_cast<double>(files.rlim_cur)),
      Figure("process_threads", "Threads.", MetricType::Gauge, Field(fields, 20)),
      Figure("process_start_time_seconds", "When the process started, since the epoch.",
             MetricType::Gauge, BootTimeSeconds() + Field(fields, 22) / ticks),
  };
}

}  // namespace hapmoe::server
