// Ours and every baseline on one job and cluster.
#ifndef HAPMOE_TESTS_BENCH_PAPER_COMPARISON_H_
#define HAPMOE_TESTS_BENCH_PAPER_COMPARISON_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/search/baselines/baselines.h"
#include "core/search/search.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"
#include "tests/bench/paper/setups.h"

namespace hapmoe::bench {

// Another's plan. All times are those of the simulated schedule.
struct Other {
  std::string name;
  std::optional<double> seconds;  // Absent: it comes to no plan that fits.
};

// How the search does with a set of options.
struct SearchRun {
  double iteration_seconds = 0;
  double gap_ratio = 0;
  double cpu_seconds = 0;              // Of the search.
  double certificate_cpu_seconds = 0;  // Of checking its best and its uniform plan.
  int64_t opened = 0;                  // Candidates.
  bool offloads = false;               // Optimizer states are in host memory.
};

// A way to search that is compared with the exact one.
struct Variant {
  std::string name;
  void (*apply)(search::Constraints&);
};
// The exact search first; then FlagScale's space, "by stage": degrees of its own for every stage,
// but no context parallelism, no virtual stages, and whole layers alone recomputed; then the
// paper's prunings one by one.
const std::vector<Variant>& Variants();

struct Comparison {
  std::string cluster;
  bool mixed = false;
  std::optional<double> printed_uniform_latency;
  std::vector<SearchRun> runs;  // One for each of Variants().
  std::vector<Other> others;
  std::vector<Other> ablations;

  double seconds() const { return runs.front().iteration_seconds; }
};

// The time of another over ours; nothing where it is absent.
std::optional<double> Slowdown(const Comparison& comparison, const std::vector<Other>& others,
                               const std::string& name);

// Makes comparisons over the built-in data.
class Comparer {
 public:
  Comparer();

  // INTERNAL where a plan of ours fails its certificate; other errors where the setup is at fault.
  absl::StatusOr<Comparison> Compare(const Model& model, const NamedCluster& cluster) const;

 private:
  std::unique_ptr<server::ProfileStore> profiles_;
  server::EngineCatalog engines_;
};

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_PAPER_COMPARISON_H_
