#include "core/search/bound.h"

#include <cmath>

namespace hapmoe::search {

double SplitBound(std::vector<double> layer_seconds, double layers, int64_t micro_batches) {
  std::sort(layer_seconds.begin(), layer_seconds.end());
  if (static_cast<double>(layer_seconds.size()) > layers) {
    layer_seconds.resize(static_cast<size_t>(std::max(1.0, std::floor(layers))));
  }
  const double count = static_cast<double>(micro_batches);
  double share = 1 / count;
  double layers_per_second = 0;
  for (const double seconds : layer_seconds) {
    layers_per_second += share / seconds;
    share *= 1 - 1 / count;
  }
  return layers / layers_per_second;
}

}  // namespace hapmoe::search
