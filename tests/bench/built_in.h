// The data that the server is built with, for benchmarks: profiles and engines.
#ifndef HAPMOE_TESTS_BENCH_BUILT_IN_H_
#define HAPMOE_TESTS_BENCH_BUILT_IN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/search/search.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::bench {

std::unique_ptr<server::ProfileStore> BuiltInProfiles();
server::EngineCatalog BuiltInEngines();

// What the search is asked about a job and a cluster.
absl::StatusOr<search::SearchRequest> ReadRequest(const server::ProfileStore& profiles,
                                                  const server::EngineCatalog& engines,
                                                  const std::vector<std::string>& megatron_args,
                                                  const v1::Cluster& cluster);

// Processor time of this process.
double ProcessSeconds();

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_BUILT_IN_H_
