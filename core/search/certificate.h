// Checks what a search returned, from scratch: a solver must not grade itself.
//
// Nothing of the search's own is used, neither its costs nor its enumeration: a plan is laid on the
// cluster's nodes, held against the engine's rules and the request's constraints, and predicted
// anew by cost::Evaluate. Some hundred microseconds for each plan, most of them the prediction's.
// Thread safe.
#ifndef HAPMOE_CORE_SEARCH_CERTIFICATE_H_
#define HAPMOE_CORE_SEARCH_CERTIFICATE_H_

#include "absl/status/status.h"
#include "core/search/search.h"

namespace hapmoe::search {

// OK where `plan` is one that `request` allows, whatever it takes: all of the list below but the
// prediction. Degrees may be any numbers. Batches are at most 2^16, so that their products with the
// cluster's accelerators are numbers.
absl::Status CheckValid(const SearchRequest& request, const plan::Plan& plan);

// OK where `costed` is a valid answer to `request`:
// - every decoder layer is in one chunk, in order; the embedding comes first, the loss last, the
//   prediction layers behind all decoder layers;
// - the stages can be laid on the pools' nodes, each on tp x cp x dp ranks, and only the
//   accelerators that the request lets idle do so;
// - the engine's rules and the request's constraints hold;
// - the global batch is the job's, and micro_batch x micro_batches x dp on every mesh;
// - a new prediction gives the claimed time and every stage's times and memory, to within 1e-9 of
//   them, and every stage fits with the headroom.
// INTERNAL: the first of these that is not so, in words that repeat no name of the request.
absl::Status CheckPlan(const SearchRequest& request, const Costed& costed);

// As above, and what is claimed about all other plans: the lower bound is a time that this plan
// does not beat, and "optimal" is said only where the two meet, to within 1e-9.
absl::Status CheckCertificate(const SearchRequest& request, const Costed& costed,
                              const Termination& termination);

// The plans of an outcome, if it has any: the best with its certificate; the uniform one, which
// may not beat the lower bound either, and which has the same layers, to within one, and the same
// recomputation on every stage; and the alternatives.
absl::Status CheckOutcome(const SearchRequest& request, const Outcome& outcome);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_CERTIFICATE_H_
