// Why nothing fits, and the smallest changes that were checked to fit.
#ifndef HAPMOE_CORE_SEARCH_DIAGNOSE_H_
#define HAPMOE_CORE_SEARCH_DIAGNOSE_H_

#include "core/base/interrupter.h"
#include "core/search/infeasibility.h"
#include "core/search/search.h"
#include "core/search/space.h"

namespace hapmoe::search {

// Explains a request without a plan, whose space this is. Changes come in the order of what they
// cost: what the request forbids, then recomputation and smaller micro-batches, then the optimizer,
// then more nodes for each pool. Each was checked to be enough alone and no larger than it has to
// be; there is none where several would be needed together. By memory alone (see fitting.h), within
// seconds for thousands of accelerators; sooner, with what is known by then, when `interrupter`
// trips.
Infeasibility Diagnose(const SearchRequest& request, const Space& space,
                       const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_DIAGNOSE_H_
