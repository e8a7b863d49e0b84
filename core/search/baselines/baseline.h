// A way to plan that others use, to compare ours with.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_BASELINE_H_
#define HAPMOE_CORE_SEARCH_BASELINES_BASELINE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/executor.h"
#include "core/base/interrupter.h"
#include "core/search/search.h"

namespace hapmoe::search {

// Stands for what a planner searches and fixes, not for its code: every baseline plans in our space
// with our cost model, virtual stages included, so that what differs is the way to plan alone. Each
// header says what its style searches, what it fixes, and what of it the space cannot express.
// Stages have one set of degrees: the request's engine must be Megatron-LM.
//
// Stateless and thread safe.
class Baseline {
 public:
  virtual ~Baseline() = default;

  // For tables, "alpa". Static.
  virtual absl::string_view name() const = 0;

  // The plan that this style would run, valid for the request and with what it truly takes on the
  // request's cluster, whatever it was made with. Nothing where it comes to no plan that fits, or
  // where `interrupter` trips before it has one.
  // INVALID_ARGUMENT: an accelerator does not support the job's precision.
  virtual absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request,
                                                     Executor& executor,
                                                     const Interrupter& interrupter) const = 0;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_BASELINE_H_
