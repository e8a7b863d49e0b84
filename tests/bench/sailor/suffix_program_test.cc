#include "tests/bench/sailor/suffix_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace hapmoe::search {
namespace {

TEST(SuffixUnitsTest, CoversWhatIsNoMoreOfAnyResource) {
  SuffixUnits more;
  SuffixUnits less;
  for (int i = 0; i < kMaxResources; ++i) {
    more.Add(i, kMaxUnits);
    less.Add(i, kMaxUnits);
  }
  EXPECT_TRUE(more.Covers(less));
  for (int i = 0; i < kMaxResources; ++i) {
    less.Take(i, kMaxUnits);
    EXPECT_EQ(less.of(i), 0);
    EXPECT_TRUE(more.Covers(less));
    EXPECT_FALSE(less.Covers(more));
  }
  more.Take(0, kMaxUnits - 1);
  less.Add(0, 2);
  EXPECT_FALSE(more.Covers(less));
  EXPECT_FALSE(less.Covers(more));
}

// A stage takes the sum of its layers over its option's speed, and what its distance from the end
// adds; the cost is `weight` times the slowest stage and the sum of all.
class Chain {
 public:
  struct Label {
    double slowest = 0;
    double sum = 0;
    int stages = 0;
  };
  struct Option {
    int resource = 0;
    int units = 1;
    double speed = 1;
    int most_layers = 1;
  };

  std::vector<double> work;
  std::vector<int> free;
  std::vector<Option> choices;
  double weight = 1;

  double StageSeconds(int option, int first, int last, int behind) const {
    double sum = 0;
    for (int i = first; i < last; ++i) sum += work[static_cast<size_t>(i)];
    return sum / choices[static_cast<size_t>(option)].speed + 0.1 * behind;
  }

  int layers() const { return static_cast<int>(work.size()); }
  int options() const { return static_cast<int>(choices.size()); }
  int resources() const { return static_cast<int>(free.size()); }
  int available(int resource) const { return free[static_cast<size_t>(resource)]; }
  int resource(int option) const { return choices[static_cast<size_t>(option)].resource; }
  int units(int option) const { return choices[static_cast<size_t>(option)].units; }
  bool Last(int option, int first, double limit, Label& label) const {
    return Extend({}, {0, layers()}, option, first, limit, label);
  }
  bool Extend(const Label& suffix, SuffixFront behind, int option, int first, double limit,
              Label& label) const {
    if (behind.first - first > choices[static_cast<size_t>(option)].most_layers) return false;
    const double seconds = StageSeconds(option, first, behind.first, suffix.stages);
    label = {std::max(suffix.slowest, seconds), suffix.sum + seconds, suffix.stages + 1};
    return Complete(label) < limit;
  }
  double Complete(const Label& label) const { return weight * label.slowest + label.sum; }
  double Bound(const Label& label, SuffixFront, const SuffixUnits&, double) const {
    return Complete(label);
  }
  double Rank(const Label& label, SuffixFront, const SuffixUnits&) const { return Complete(label); }
  bool Replaces(const Label& first, const Label& second, SuffixFront, const SuffixUnits&) const {
    return first.slowest <= second.slowest && first.sum <= second.sum &&
           first.stages <= second.stages;
  }
};

double BestOf(const Chain& chain, std::vector<int>& left, int last, double slowest, double sum,
              int behind) {
  if (last == 0) return chain.weight * slowest + sum;
  double best = std::numeric_limits<double>::infinity();
  for (int option = 0; option < chain.options(); ++option) {
    const Chain::Option& choice = chain.choices[static_cast<size_t>(option)];
    int& units = left[static_cast<size_t>(choice.resource)];
    if (units < choice.units) continue;
    units -= choice.units;
    for (int first = last - 1; first >= 0 && last - first <= choice.most_layers; --first) {
      const double seconds = chain.StageSeconds(option, first, last, behind);
      best = std::min(
          best, BestOf(chain, left, first, std::max(slowest, seconds), sum + seconds, behind + 1));
    }
    units += choice.units;
  }
  return best;
}

Chain RandomChain(std::mt19937& random) {
  std::uniform_real_distribution<double> real(0.5, 2);
  Chain chain;
  const int layers = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < layers; ++i) chain.work.push_back(real(random));
  const int resources = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < resources; ++i) chain.free.push_back(static_cast<int>(random() % 4));
  const int options = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < options; ++i) {
    chain.choices.push_back({static_cast<int>(random() % static_cast<uint32_t>(resources)),
                             1 + static_cast<int>(random() % 2), real(random),
                             1 + static_cast<int>(random() % 3)});
  }
  chain.weight = static_cast<double>(random() % 5);
  return chain;
}

TEST(SuffixProgramTest, FindsTheLeastCostOfAllPipelines) {
  int found = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Chain chain = RandomChain(random);
    std::vector<int> left = chain.free;
    const double best = BestOf(chain, left, chain.layers(), 0, 0, 0);
    SuffixProgram<Chain> program(chain);
    const auto result = program.Solve(std::numeric_limits<double>::infinity());
    ASSERT_EQ(result.found, std::isfinite(best));
    if (!result.found) continue;
    ++found;
    EXPECT_NEAR(result.cost, best, 1e-9);
    // The stages are what costs that.
    Chain::Label label;
    int last = chain.layers();
    for (size_t i = result.stages.size(); i-- > 0;) {
      const SuffixFront stage = result.stages[i];
      ASSERT_TRUE(chain.Extend(label, {0, last}, stage.option, stage.first, 1e9, label));
      last = stage.first;
    }
    EXPECT_EQ(last, 0);
    EXPECT_NEAR(chain.Complete(label), best, 1e-9);
    // Nothing is below it, and the same object can be asked again.
    EXPECT_FALSE(program.Solve(result.cost).found);
    EXPECT_EQ(program.Solve(result.cost * 1.5).cost, result.cost);
    // A narrow search finds something no better, or nothing.
    EXPECT_GE(program.Solve(std::numeric_limits<double>::infinity(), 1).cost, result.cost - 1e-9);
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace hapmoe::search
