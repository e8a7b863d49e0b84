// What benchmarks ask of the search, and the time that it takes.
#ifndef HAPMOE_TESTS_BENCH_REQUESTS_H_
#define HAPMOE_TESTS_BENCH_REQUESTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/search/search.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::bench {

// What the search is asked about a job and a cluster.
absl::StatusOr<search::SearchRequest> ReadRequest(const server::ProfileStore& profiles,
                                                  const server::EngineCatalog& engines,
                                                  const std::vector<std::string>& megatron_args,
                                                  const v1::Cluster& cluster);

// Processor time of this process.
double ProcessSeconds();

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_REQUESTS_H_
