#include "core/model/router_statistics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hapmoe::model {

std::vector<Violation> Validate(const RouterStatistics& statistics, int64_t moe_layers,
                                int64_t experts, const std::string& field) {
  std::vector<Violation> violations;
  const auto layers = static_cast<int64_t>(statistics.layers.size());
  if (layers != moe_layers) {
    violations.push_back({"router_statistics_layers", field,
                          absl::StrCat("The model has ", moe_layers,
                                       " mixture-of-experts layers, not ", layers, ".")});
  }
  for (size_t layer = 0; layer < statistics.layers.size(); ++layer) {
    const std::vector<int64_t>& tokens = statistics.layers[layer];
    const std::string at = absl::StrCat(field, "[", layer, "]");
    if (static_cast<int64_t>(tokens.size()) != experts) {
      violations.push_back(
          {"router_statistics_experts", at,
           absl::StrCat("A layer has ", experts, " experts, not ", tokens.size(), ".")});
    }
    const auto negative =
        std::find_if(tokens.begin(), tokens.end(), [](int64_t count) { return count < 0; });
    if (negative != tokens.end()) {
      violations.push_back({"router_statistics_not_negative",
                            absl::StrCat(at, "[", negative - tokens.begin(), "]"),
                            absl::StrCat("Must not be negative, but is ", *negative, ".")});
    } else if (std::all_of(tokens.begin(), tokens.end(),
                           [](int64_t count) { return count == 0; })) {
      violations.push_back({"router_statistics_not_all_zero", at, "No expert received a token."});
    }
  }
  return violations;
}

Imbalance ImbalanceOf(const RouterStatistics& statistics, int64_t ep, double most) {
  Imbalance imbalance;
  if (statistics.layers.empty() || ep <= 1) return imbalance;
  double sum = 0;
  for (const std::vector<int64_t>& tokens : statistics.layers) {
    const size_t local = tokens.size() / static_cast<size_t>(ep);
    double total = 0;
    double busiest = 0;
    for (size_t first = 0; first < tokens.size(); first += local) {
      double rank = 0;  // In floating point: sums of counts may exceed 64 bits.
      for (size_t i = first; i < first + local; ++i) rank += static_cast<double>(tokens[i]);
      total += rank;
      busiest = std::max(busiest, rank);
    }
    const double ratio = std::clamp(busiest * static_cast<double>(ep) / total, 1.0, most);
    sum += ratio;
    imbalance.memory = std::max(imbalance.memory, ratio);
  }
  imbalance.saved = imbalance.memory;  // Which layers share a stage is not known here.
  imbalance.time = sum / static_cast<double>(statistics.layers.size());
  return imbalance;
}

}  // namespace hapmoe::model
