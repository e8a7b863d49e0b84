// The data that the server is built with.
#ifndef HAPMOE_TESTS_SERVER_TESTING_BUILT_IN_H_
#define HAPMOE_TESTS_SERVER_TESTING_BUILT_IN_H_

#include <memory>

#include "server/planning/engine_catalog.h"
#include "server/planning/scheduler_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::server {

// A store of its own, in memory.
std::unique_ptr<ProfileStore> BuiltInProfiles();
EngineCatalog BuiltInEngines();
SchedulerCatalog BuiltInSchedulers();

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_BUILT_IN_H_
