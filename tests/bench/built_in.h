// The data that the server is built with, for benchmarks: profiles and engines.
#ifndef HAPMOE_TESTS_BENCH_BUILT_IN_H_
#define HAPMOE_TESTS_BENCH_BUILT_IN_H_

#include <memory>

#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::bench {

std::unique_ptr<server::ProfileStore> BuiltInProfiles();
server::EngineCatalog BuiltInEngines();

// Processor time of this process.
double ProcessSeconds();

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_BUILT_IN_H_
