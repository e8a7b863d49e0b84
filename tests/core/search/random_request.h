// Small random requests for tests of what a search returns.
#ifndef HAPMOE_TESTS_CORE_SEARCH_RANDOM_REQUEST_H_
#define HAPMOE_TESTS_CORE_SEARCH_RANDOM_REQUEST_H_

#include <cstdint>

#include "core/search/search.h"

namespace hapmoe::search {

// Dense or with experts, 3 to 8 layers on `pools` pools of 1 to 4 accelerators each, of different
// speed, with memory from plenty to too little. The same for the same seed.
SearchRequest RandomRequest(uint32_t seed, int64_t pools);

// As above on 1 to 3 pools, with constraints of all kinds at random.
SearchRequest RandomConstrainedRequest(uint32_t seed);

}  // namespace hapmoe::search

#endif  // HAPMOE_TESTS_CORE_SEARCH_RANDOM_REQUEST_H_
