#include "tests/bench/built_in.h"

#include <ctime>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "server/embedded/embedded.h"
#include "server/planning/problem_reader.h"

namespace hapmoe::bench {

std::unique_ptr<server::ProfileStore> BuiltInProfiles() {
  server::ProfileStore::Options options;
  for (const server::EmbeddedFile& file : server::EmbeddedProfiles()) {
    options.built_in.push_back({file.name, file.content});
  }
  options.storage = std::make_unique<server::MemoryProfileStorage>();
  return server::ProfileStore::Open(std::move(options)).value();
}

server::EngineCatalog BuiltInEngines() {
  std::vector<absl::string_view> texts;
  for (const server::EmbeddedFile& file : server::EmbeddedEngines()) texts.push_back(file.content);
  return server::EngineCatalog::Parse(texts).value();
}

absl::StatusOr<search::SearchRequest> ReadRequest(const server::ProfileStore& profiles,
                                                  const server::EngineCatalog& engines,
                                                  const std::vector<std::string>& megatron_args,
                                                  const v1::Cluster& cluster) {
  v1::Problem problem;
  for (const std::string& arg : megatron_args) problem.mutable_job()->add_megatron_args(arg);
  *problem.mutable_cluster() = cluster;
  HAPMOE_ASSIGN_OR_RETURN(const server::ReadProblem read,
                          server::ReadPlanRequest("bench", problem, *profiles.catalog(), engines));
  return server::SearchRequestOf(read);
}

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace hapmoe::bench
