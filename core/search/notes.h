// What a reader should know of a plan, in sentences.
#ifndef HAPMOE_CORE_SEARCH_NOTES_H_
#define HAPMOE_CORE_SEARCH_NOTES_H_

#include <string>
#include <vector>

#include "core/search/candidate_costs.h"
#include "core/search/search.h"

namespace hapmoe::search {

// How layers follow speed, where memory forbids it, what idles, how full the fullest stage is where
// it is nearly full.
std::vector<std::string> NotesOn(const SearchRequest& request, const Costed& best,
                                 CandidateCosts& costs);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_NOTES_H_
