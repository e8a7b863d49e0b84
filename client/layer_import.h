// Layer times that other planners' profilers wrote, as layer tables of ours.
#ifndef HAPMOE_CLIENT_LAYER_IMPORT_H_
#define HAPMOE_CLIENT_LAYER_IMPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::client {

// sailor: eth-easl/sailor's profile.json, {micro-batch: {degree: {layer: [forward, backward,
// update]}}} in seconds. metis: SamsungLabs/Metis' DeviceType.NAME_tpT_bsB.json, whose
// execution_time.layer_compute_total_ms holds both passes of each layer together. galvatron:
// PKU-DAIR/Hetu-Galvatron's computation_profiling_PRECISION_MODEL.json, whose
// layertype_0_bszB_seqS holds the milliseconds that the forward pass of one layer takes for each of
// B samples of S tokens, on one accelerator; its planner takes the backward pass for twice that.
// Sequences other than the table's, other layer types and parts of a layer are passed over.
enum class LayerFormat { kSailor, kMetis, kGalvatron };

// Adds the times of one file to `table`; a degree and micro-batch that it holds already is
// replaced. In files of single layers the first is the embedding and the last the head; of those
// between, the median counts. Both passes together are split one to two, as their arithmetic is. An
// error names file and place, and leaves `table` as it was.
absl::Status ImportLayers(LayerFormat format, const std::string& path, absl::string_view text,
                          v1::LayerTable& table);

// The table of `profile` of the same shape and precision, or a new one of that shape.
v1::LayerTable& TableOfShape(const v1::LayerTable& shape, v1::AcceleratorProfile& profile);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_LAYER_IMPORT_H_
