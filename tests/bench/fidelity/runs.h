// Published training runs as reports of measured iterations.
#ifndef HAPMOE_TESTS_BENCH_FIDELITY_RUNS_H_
#define HAPMOE_TESTS_BENCH_FIDELITY_RUNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/feedback/calibration.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::fidelity {

// A published run that can be predicted.
struct Run {
  std::string id;
  std::string family;
  std::string job;          // Equal for all scales of a job.
  bool current = false;     // As MeasuredRun has it.
  bool consistent = false;  // The source does not contradict the arguments.
  int64_t world_size = 0;
  int64_t global_batch = 0;
  feedback::Observation observation;
  double predicted_seconds = 0;
};

// Those of a file of cases whose iteration time was measured. NOT_FOUND, INVALID_ARGUMENT: the file
// is not there, or not of cases.
absl::StatusOr<std::vector<Run>> ReadRuns(const std::string& path,
                                          const server::ProfileCatalog& profiles,
                                          const server::EngineCatalog& engines);

}  // namespace hapmoe::fidelity

#endif  // HAPMOE_TESTS_BENCH_FIDELITY_RUNS_H_
