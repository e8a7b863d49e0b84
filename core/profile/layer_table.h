// Measured times of one dense decoder layer of a model on one accelerator type.
#ifndef HAPMOE_CORE_PROFILE_LAYER_TABLE_H_
#define HAPMOE_CORE_PROFILE_LAYER_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/profile/operation_table.h"

namespace hapmoe::profile {

// What a layer must have in common with a measured one: everything that its products depend on.
struct LayerShape {
  int64_t hidden = 0;  // Heads times the size of a head.
  int64_t ffn_hidden = 0;
  bool gated_mlp = false;
  int64_t heads = 0;
  int64_t query_groups = 0;
  int64_t seq_length = 0;
  MatrixPrecision precision = MatrixPrecision::kBf16;

  // Equal, where either 16-bit format stands for the other.
  bool Matches(const LayerShape& other) const;
};

// Operations of the forward pass of one layer over `micro_batch` sequences on all ranks together.
double LayerFlops(const LayerShape& shape, int64_t micro_batch);

// Times of one pass through one layer on one rank.
struct LayerTimes {
  double forward_seconds = 0;
  double backward_seconds = 0;  // Without recomputation.
  bool measured = false;        // At this micro-batch; else between or just beyond measured ones.
  bool includes_tensor_communication = false;
};

struct LayerSample {
  int64_t tp = 1;
  int64_t micro_batch = 1;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

// Immutable, thread safe. Faults of the samples are Validate's to find (accelerator_profile.h).
class LayerTable {
 public:
  LayerTable(const LayerShape& shape, std::vector<LayerSample> samples,
             bool includes_tensor_communication, std::string source);

  const LayerShape& shape() const { return shape_; }
  const std::vector<LayerSample>& samples() const { return samples_; }  // In the order given.
  const std::string& source() const { return source_; }

  // Interpolates linearly between micro-batches of the same degree. Beyond them time goes with the
  // micro-batch, down to half the smallest and up to twice the largest; nothing further out.
  std::optional<LayerTimes> At(int64_t tp, int64_t micro_batch) const;

 private:
  LayerShape shape_;
  std::vector<LayerSample> samples_;
  bool includes_tensor_communication_ = false;
  std::string source_;
};

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_LAYER_TABLE_H_
