// Which layers each pipeline rank holds: Megatron-LM's layout strings and its default splits.
#ifndef HAPMOE_CORE_PLAN_PIPELINE_LAYOUT_H_
#define HAPMOE_CORE_PLAN_PIPELINE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/model/transformer_spec.h"
#include "core/plan/parallel_spec.h"
#include "core/plan/plan.h"

namespace hapmoe::plan {

// A layout string that was read. Stage i is virtual stage i / pp of pipeline rank i % pp.
struct PipelineLayout {
  // Letters of each stage: E embedding, t decoder layer, m multi-token prediction layer, L loss.
  std::vector<std::string> stages;
  std::string fault;  // Why the string could not be read, one sentence; empty if it could.

  bool ok() const { return fault.empty(); }
};

// Longer strings, before or after their repetitions are written out, are refused.
inline constexpr size_t kMaxLayoutBytes = 1 << 16;

// Reads "Et*3|(tt|)*29,m|L" (transformer/pipeline_parallel_layer_layout.py:285-321): commas are
// dropped, groups in parentheses repeat, then single letters do, and '|' ends a stage. No nesting,
// no blanks. Whether the stages make sense is for the rules to say.
PipelineLayout ParsePipelineLayout(absl::string_view text);

// Virtual stages of each pipeline rank, at least 1. Options that contradict each other, which the
// rules report, give 1.
int64_t VirtualStages(const ParallelSpec& parallel, int64_t layers, const PipelineLayout* layout);

// The chunks of each pipeline rank: by the layout if there is one, else by the options for uneven
// stages, else evenly. Assumes that the rules of Scope::kLayout hold.
//
// The embedding is on the first rank's first chunk and the loss on the last rank's last one, also
// where the layout puts L elsewhere: the engine checks L but does not obey it
// (training/training.py:2391-2409).
std::vector<std::vector<Chunk>> SplitIntoStages(const ParallelSpec& parallel,
                                                const model::TransformerSpec& model);

// The layout string of stages in pipeline order, which all have the same number of chunks:
// letters and bars only, "Etttt|tttt|ttttL". SplitIntoStages gives the same chunks back.
std::string PipelineLayoutString(absl::Span<const Stage> stages);

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_PIPELINE_LAYOUT_H_
