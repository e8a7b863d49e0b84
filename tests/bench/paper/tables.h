// The tables of the comparison, as text, and what must hold of them.
#ifndef HAPMOE_TESTS_BENCH_PAPER_TABLES_H_
#define HAPMOE_TESTS_BENCH_PAPER_TABLES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/paper/comparison.h"

namespace hapmoe::bench {

// Iteration times, and those of others as multiples of ours.
std::string TimesTable(const std::vector<Comparison>& comparisons, bool mixed);

// Geometric means over mixed clusters of throughput over the uniform plan's, beside the paper's
// over tuning by hand. Clusters where a method has no plan are left out of its mean.
std::string ThroughputTable(const Model& model, const std::vector<Comparison>& comparisons);

// What our search loses with less freedom, beside the paper's non-uniform PP and DP switched off.
std::string AblationTable(const std::vector<Comparison>& comparisons);

// What searching costs, and what each variant saves and costs over the exact search.
std::string SearchTable(const std::vector<Comparison>& comparisons);

// Geometric mean of the throughput of "ours" or of a baseline over the uniform plan's on mixed
// clusters; nothing where none has both.
std::optional<double> ThroughputOverUniform(const std::vector<Comparison>& comparisons,
                                            const std::string& name);

// Whoever is ahead of ours by more than rounding, in words.
std::vector<std::string> AheadOfOurs(const std::vector<Comparison>& comparisons);

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_PAPER_TABLES_H_
