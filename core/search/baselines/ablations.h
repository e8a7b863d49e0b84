// Our own search with one of its freedoms taken away.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_ABLATIONS_H_
#define HAPMOE_CORE_SEARCH_BASELINES_ABLATIONS_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// Searches: degrees, virtual stages and micro-batch, and then recomputation of every stage out of
// RecomputeChoices. Fixes: the same layers on every stage, to within one, with the degrees that are
// best under one recomputation. Stages have the same degrees anyway on Megatron-LM, so that this is
// what is left when non-uniform pipelines and data parallelism are switched off.
class LayersUniform : public Baseline {
 public:
  absl::string_view name() const override { return "layers-uniform"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

// Searches: recomputation, the same for all stages, and the order of the pools. Fixes: the degrees
// and the micro-batch of our best plan, and the same layers on every stage, to within one: what it
// costs to switch non-uniform layers off and to leave everything else as it was.
class LayersEven : public Baseline {
 public:
  absl::string_view name() const override { return "layers-even"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

// Searches: everything but recomputation. Fixes: the same recomputation on every stage, the best of
// none, the modules of RecomputeChoices, and all layers.
class RecomputeUniform : public Baseline {
 public:
  absl::string_view name() const override { return "recompute-uniform"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_ABLATIONS_H_
