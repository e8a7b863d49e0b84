// The numbers and verdicts of the tables, on comparisons made up here.
#include "tests/bench/paper/tables.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Comparison Made(const std::string& cluster, double ours, std::optional<double> uniform,
                std::optional<double> metis) {
  Comparison comparison;
  comparison.cluster = cluster;
  comparison.mixed = true;
  comparison.runs = {{.iteration_seconds = ours,
                      .gap_ratio = 0.0125,
                      .cpu_seconds = 0.01,
                      .certificate_cpu_seconds = 7e-5,
                      .opened = 42}};
  comparison.others = {{"uniform", uniform}, {"metis", metis}};
  comparison.ablations = {{"layers-even", uniform}};
  return comparison;
}

TEST(PaperTablesTest, ThroughputIsAGeometricMeanOverClustersWithBoth) {
  // Ours over uniform: 2, 8 and none; their geometric mean is 4. Metis: 2 / 1 and 8 / 4, 2.
  const std::vector<Comparison> comparisons = {Made("a", 1, 2, 1), Made("b", 1, 8, 4),
                                               Made("c", 1, std::nullopt, 3)};
  EXPECT_DOUBLE_EQ(*ThroughputOverUniform(comparisons, "ours"), 4);
  EXPECT_DOUBLE_EQ(*ThroughputOverUniform(comparisons, "metis"), 2);
  EXPECT_DOUBLE_EQ(*ThroughputOverUniform(comparisons, "uniform"), 1);
  EXPECT_FALSE(ThroughputOverUniform(comparisons, "alpa").has_value());
  EXPECT_FALSE(ThroughputOverUniform({Made("c", 1, std::nullopt, 3)}, "ours").has_value());
  std::vector<Comparison> one_type = comparisons;
  for (Comparison& comparison : one_type) comparison.mixed = false;
  EXPECT_FALSE(ThroughputOverUniform(one_type, "ours").has_value());
}

TEST(PaperTablesTest, WhoeverIsAheadIsNamed) {
  EXPECT_THAT(AheadOfOurs({Made("a", 1, 1, std::nullopt), Made("b", 2, 2.5, 2)}), IsEmpty());
  EXPECT_THAT(AheadOfOurs({Made("a", 1, 1 - 1e-12, 1)}), IsEmpty());  // Rounding.
  EXPECT_THAT(AheadOfOurs({Made("a", 1, 2, 0.99)}),
              ElementsAre("metis takes 0.990000 s on a and ours 1.000000 s"));
  Comparison ablation = Made("a", 1, 2, 2);
  ablation.ablations = {{"layers-even", 0.5}};
  EXPECT_THAT(AheadOfOurs({ablation}), ElementsAre(HasSubstr("layers-even takes")));
}

TEST(PaperTablesTest, TablesShowRatiosAndWhatIsMissing) {
  Comparison one = Made("16-1", 2, 3, std::nullopt);
  one.runs.front().offloads = true;
  one.printed_uniform_latency = 2.3;
  const std::string times = TimesTable({one}, /*mixed=*/true);
  for (const char* part : {"16-1", "2.000 (offload)", "1.25%", "1.50", " -\n"}) {
    EXPECT_THAT(times, HasSubstr(part));
  }
  EXPECT_EQ(TimesTable({one}, /*mixed=*/false), "");
  EXPECT_THAT(AblationTable({one}), HasSubstr("1.50              2.30"));
  const std::string searching = SearchTable({one});
  for (const char* part : {"exact, CPU ms", "10.0", "42", "70"}) {
    EXPECT_THAT(searching, HasSubstr(part));
  }
  Model model;
  model.printed = {{"ours", 1.78}};
  const std::string throughput = ThroughputTable(model, {one});
  EXPECT_THAT(throughput, HasSubstr("1.50              1.78"));
  EXPECT_THAT(throughput, Not(HasSubstr("alpa")));
}

}  // namespace
}  // namespace hapmoe::bench
