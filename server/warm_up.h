// Work done before the first call, so that it takes hardly longer than those after it.
#ifndef HAPMOE_SERVER_WARM_UP_H_
#define HAPMOE_SERVER_WARM_UP_H_

#include "server/planning/planner.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// Plans two small jobs, one with experts and one without, on one pool and on two of types of the
// catalog, as a call would: what the first search of a process pays for, its code and its memory
// being touched for the first time, is paid then. Tens of milliseconds of the calling thread, and a
// second at most. Nothing of it is kept but that the planner may know its plans for reports.
// Returns how many were planned: fewer than there are only where the catalog or the solver is
// unusual, which is no reason not to serve.
int WarmUp(const Planner& planner, const ProfileCatalog& profiles);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_WARM_UP_H_
