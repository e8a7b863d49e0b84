#include "tests/bench/load/process_figures.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace hapmoe::bench {
namespace {

double CpuSeconds(const std::string& stat) {
  // The name of the program, in parentheses, may hold spaces.
  std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest),
                                        std::istream_iterator<std::string>()};
  if (fields.size() < 13) return 0;
  return (std::stod(fields[11]) + std::stod(fields[12])) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessFigures FiguresOf(int pid) {
  const std::string directory = pid == 0 ? "/proc/self" : "/proc/" + std::to_string(pid);
  ProcessFigures figures;
  std::ifstream status(directory + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    words >> name >> value;
    if (name == "VmRSS:") figures.resident_bytes = value * 1024;
    if (name == "VmHWM:") figures.peak_resident_bytes = value * 1024;
    if (name == "Threads:") figures.threads = value;
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/fd", error)) {
    (void)entry;
    ++figures.descriptors;
  }
  std::ifstream file(directory + "/stat");
  figures.cpu_seconds = CpuSeconds(
      std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()));
  return figures;
}

}  // namespace hapmoe::bench
