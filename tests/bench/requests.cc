#include "tests/bench/requests.h"

#include <ctime>

#include "core/base/status_macros.h"
#include "server/planning/problem_reader.h"

namespace hapmoe::bench {

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
