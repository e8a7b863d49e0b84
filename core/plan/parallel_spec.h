// Parallel sizes and layout as a Megatron-LM job's arguments give them, before they are resolved.
#ifndef HAPMOE_CORE_PLAN_PARALLEL_SPEC_H_
#define HAPMOE_CORE_PLAN_PARALLEL_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>

namespace hapmoe::plan {

// Absent options are absent here: rules ask about combinations, so defaults are not filled in.
struct ParallelSpec {
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  std::optional<int64_t> etp = std::nullopt;  // Absent: equal to tp.
  std::optional<std::string> layout = std::nullopt;
  std::optional<int64_t> layers_per_virtual_stage = std::nullopt;
  std::optional<int64_t> virtual_stages_per_rank = std::nullopt;
  std::optional<int64_t> first_stage_layers = std::nullopt;
  std::optional<int64_t> last_stage_layers = std::nullopt;
  bool account_for_embedding = false;
  bool account_for_loss = false;
  std::optional<int64_t> interleaving_group = std::nullopt;
  bool overlap_p2p = true;
  bool data_outermost = false;  // --use-tp-pp-dp-mapping.

  int64_t expert_tp() const { return etp.value_or(tp); }
};

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_PARALLEL_SPEC_H_
