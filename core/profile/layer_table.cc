#include "core/profile/layer_table.h"

#include <utility>

namespace hapmoe::profile {
namespace {

bool IsHalf(MatrixPrecision precision) {
  return precision == MatrixPrecision::kBf16 || precision == MatrixPrecision::kFp16;
}

}  // namespace

bool LayerShape::Matches(const LayerShape& other) const {
  const bool same_precision =
      precision == other.precision || (IsHalf(precision) && IsHalf(other.precision));
  return same_precision && hidden == other.hidden && ffn_hidden == other.ffn_hidden &&
         gated_mlp == other.gated_mlp && heads == other.heads &&
         query_groups == other.query_groups && seq_length == other.seq_length;
}

double LayerFlops(const LayerShape& shape, int64_t micro_batch) {
  const double hidden = static_cast<double>(shape.hidden);
  const double sequence = static_cast<double>(shape.seq_length);
  const double keys =
      hidden * static_cast<double>(shape.query_groups) / static_cast<double>(shape.heads);
  const double matrices = shape.gated_mlp ? 3 : 2;
  const double weights =
      hidden * (2 * hidden + 2 * keys) + matrices * hidden * static_cast<double>(shape.ffn_hidden);
  // The visible half of two products of sequence x sequence x hidden.
  const double attention = 2 * sequence * hidden;
  return static_cast<double>(micro_batch) * sequence * (2 * weights + attention);
}

LayerTable::LayerTable(const LayerShape& shape, std::vector<LayerSample> samples,
                       bool includes_tensor_communication, std::string source)
    : shape_(shape),
      samples_(std::move(samples)),
      includes_tensor_communication_(includes_tensor_communication),
      source_(std::move(source)) {}

std::optional<LayerTimes> LayerTable::At(int64_t tp, int64_t micro_batch) const {
  const LayerSample* below = nullptr;  // The nearest at or below, and above.
  const LayerSample* above = nullptr;
  for (const LayerSample& sample : samples_) {
    if (sample.tp != tp) continue;
    if (sample.micro_batch <= micro_batch) {
      if (below == nullptr || sample.micro_batch > below->micro_batch) below = &sample;
    } else if (above == nullptr || sample.micro_batch < above->micro_batch) {
      above = &sample;
    }
  }
  LayerTimes times;
  times.includes_tensor_communication = includes_tensor_communication_;
  const double asked = static_cast<double>(micro_batch);
  if (below != nullptr && above != nullptr) {
    const double low = static_cast<double>(below->micro_batch);
    const double share = (asked - low) / (static_cast<double>(above->micro_batch) - low);
    times.forward_seconds =
        below->forward_seconds + share * (above->forward_seconds - below->forward_seconds);
    times.backward_seconds =
        below->backward_seconds + share * (above->backward_seconds - below->backward_seconds);
    times.measured = below->micro_batch == micro_batch;
    return times;
  }
  const LayerSample* nearest = below != nullptr ? below : above;
  if (nearest == nullptr) return std::nullopt;
  const double ratio = asked / static_cast<double>(nearest->micro_batch);
  if (ratio > 2 || ratio < 0.5) return std::nullopt;
  times.forward_seconds = nearest->forward_seconds * ratio;
  times.backward_seconds = nearest->backward_seconds * ratio;
  times.measured = nearest->micro_batch == micro_batch;
  return times;
}

}  // namespace hapmoe::profile
