// The best few plans that differ in kind.
#ifndef HAPMOE_CORE_SEARCH_ALTERNATIVES_H_
#define HAPMOE_CORE_SEARCH_ALTERNATIVES_H_

#include <vector>

#include "core/search/search.h"

namespace hapmoe::search {

// Collects plans as they are found and keeps the best of each kind: plans with the same degrees,
// micro-batch and number of stages, and virtual stages or none, are of one.
class Alternatives {
 public:
  void Note(Costed plan);

  // Those of other kinds than `best`, best first.
  std::vector<Costed> Beside(const plan::Plan& best) &&;

 private:
  std::vector<Costed> plans_;  // Best first.
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_ALTERNATIVES_H_
