// Ours and every baseline on the models and clusters of the HAPMoE paper, all costed by the
// simulated schedule over the built-in profiles.
//
//   bin/paper
//
// Exits with 1 where any baseline or ablation is ahead of ours, where a plan fails its certificate,
// or where ours gains less over the uniform plan than the floors below.

#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/paper/comparison.h"
#include "tests/bench/paper/setups.h"
#include "tests/bench/paper/tables.h"
#include "tests/bench/requests.h"

namespace hapmoe::bench {
namespace {

bool Report(const Comparer& comparer, const Model& model) {
  std::vector<Comparison> comparisons;
  for (const NamedCluster& cluster : model.clusters) {
    auto comparison = comparer.Compare(model, cluster);
    if (!comparison.ok()) {
      std::fprintf(stderr, "%s on %s: %s\n", model.name.c_str(), cluster.name.c_str(),
                   comparison.status().ToString().c_str());
      return false;
    }
    comparisons.push_back(*std::move(comparison));
  }
  std::printf("\n%s: time of an iteration; of others, over ours\n", model.name.c_str());
  for (const bool mixed : {false, true}) std::printf("%s", TimesTable(comparisons, mixed).c_str());
  std::printf("%s: throughput, geometric mean over mixed clusters (paper: table 2)\n%s",
              model.name.c_str(), ThroughputTable(model, comparisons).c_str());
  std::printf("%s: less freedom, time over ours (paper: table 3)\n%s", model.name.c_str(),
              AblationTable(comparisons).c_str());
  std::printf("%s: searching\n%s", model.name.c_str(), SearchTable(comparisons).c_str());

  bool good = true;
  for (const std::string& ahead : AheadOfOurs(comparisons)) {
    std::fprintf(stderr, "%s: %s\n", model.name.c_str(), ahead.c_str());
    good = false;
  }
  const double gain = ThroughputOverUniform(comparisons, "ours").value_or(0);
  if (gain < model.floor_over_uniform) {
    std::fprintf(stderr, "%s: ours gains %.3f over the uniform plan, less than %.2f\n",
                 model.name.c_str(), gain, model.floor_over_uniform);
    good = false;
  }
  return good;
}

int Main() {
  const double start = ProcessSeconds();
  const Comparer comparer;
  bool good = true;
  for (const Model& model : Models()) good &= Report(comparer, model);
  std::printf("\n%.1f s of processor time\n", ProcessSeconds() - start);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace hapmoe::bench

int main() { return hapmoe::bench::Main(); }
