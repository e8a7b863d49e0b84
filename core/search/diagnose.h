// Why nothing fits, and the smallest change that was checked to fit.
#ifndef HAPMOE_CORE_SEARCH_DIAGNOSE_H_
#define HAPMOE_CORE_SEARCH_DIAGNOSE_H_

#include "core/base/interrupter.h"
#include "core/search/search.h"
#include "core/search/space.h"

namespace hapmoe::search {

// Explains a request without a plan. Changes are tried from the one that costs least: idle
// accelerators, whole-layer recomputation, optimizer states in host memory, then more nodes.
Infeasibility Diagnose(const SearchRequest& request, const Space& space,
                       const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_DIAGNOSE_H_
