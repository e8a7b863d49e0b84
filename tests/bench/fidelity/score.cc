#include "tests/bench/fidelity/score.h"

#include <algorithm>
#include <cmath>

namespace hapmoe::fidelity {

Errors ErrorsOf(const std::vector<double>& errors) {
  Errors result;
  if (errors.empty()) return result;
  result.count = static_cast<int>(errors.size());
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::fabs(error));
    result.bias += error / static_cast<double>(errors.size());
    result.mean += std::fabs(error) / static_cast<double>(errors.size());
  }
  std::sort(sizes.begin(), sizes.end());
  const size_t middle = sizes.size() / 2;
  result.median = sizes.size() % 2 == 1 ? sizes[middle] : (sizes[middle - 1] + sizes[middle]) / 2;
  result.worst = sizes.back();
  return result;
}

std::optional<double> KendallTau(const std::vector<std::pair<double, double>>& pairs) {
  int total = 0;
  int agree = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t j = i + 1; j < pairs.size(); ++j) {
      const double product =
          (pairs[i].first - pairs[j].first) * (pairs[i].second - pairs[j].second);
      if (product == 0) continue;
      ++total;
      agree += product > 0 ? 1 : -1;
    }
  }
  if (total == 0) return std::nullopt;
  return static_cast<double>(agree) / total;
}

double Regret(const std::vector<std::pair<double, double>>& pairs) {
  double best = pairs.front().second;
  for (const auto& [predicted, measured] : pairs) best = std::min(best, measured);
  return std::min_element(pairs.begin(), pairs.end())->second / best;
}

Detection DetectionOf(const std::vector<MeasuredRun>& runs) {
  Detection detection;
  for (const MeasuredRun& run : runs) {
    if (!run.fits.has_value()) continue;
    if (run.out_of_memory) {
      ++(*run.fits ? detection.missed : detection.caught);
    } else {
      ++detection.ran;
      detection.false_alarms += *run.fits ? 0 : 1;
    }
  }
  return detection;
}

}  // namespace hapmoe::fidelity
