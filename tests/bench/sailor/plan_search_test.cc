// The search against every plan of small random profiles, costed by IterationSeconds and Fits
// alone.
#include "tests/bench/sailor/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace hapmoe::bench::sailor {
namespace {

#ifdef NDEBUG
constexpr uint32_t kInstances = 3000;
#else
constexpr uint32_t kInstances = 50;
#endif
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Pick(std::mt19937& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// Layers of one kind but for the first and the last, or each of its own kind. Transfers, updates
// and all-reduces from nothing to as long as the passes; memory from comfortable to hopeless.
Profile RandomProfile(std::mt19937& random) {
  Profile profile;
  profile.layers = 2 + static_cast<int>(random() % 5);
  const int types = 1 + static_cast<int>(random() % 2);
  const bool alike = random() % 2 == 0;
  const auto layers = [&](double low, double high) {
    std::vector<double> values;
    for (int i = 0; i < profile.layers; ++i) {
      const bool repeat = alike && i > 1 && i + 1 < profile.layers;
      values.push_back(repeat ? values.back() : Pick(random, low, high));
    }
    return values;
  };
  const double memory = Pick(random, 3e9, 9e9);
  for (int i = 0; i < types; ++i) {
    AcceleratorType type;
    type.name = std::string(1, static_cast<char>('a' + i));
    type.memory_bytes = memory * Pick(random, 0.7, 1.3);
    const double speed = Pick(random, 0.5, 3);
    const double gain = Pick(random, 0, 0.8);  // Of each further rank of a tensor-parallel group.
    for (const int micro_batch : {1, 2}) {
      for (const int tp : kTensorDegrees) {
        if (random() % 8 == 0) continue;  // Not every combination was measured.
        LayerTimes& times = type.times[{micro_batch, tp}];
        const double scale = micro_batch / speed / (1 + gain * (tp - 1));
        times.pass = layers(0.05 * scale, 0.1 * scale);
        if (random() % 2 == 0) times.pass.front() /= 50;
        times.update = layers(0, 0.05);
      }
    }
    profile.types.push_back(type);
  }
  // In some, what matters most is how many micro-batches a stage keeps.
  const double kept = random() % 2 == 0 ? 1 : 5;
  for (const int tp : kTensorDegrees) {
    profile.sizes[tp].parameters = layers(5e6 / tp, 50e6 / tp);
    profile.sizes[tp].activations = layers(5e6 * kept, 100e6 * kept);
  }
  profile.outputs = layers(1e6, 4e6);
  if (random() % 4 == 0) profile.outputs.back() *= 40;
  const double slowness = random() % 3 == 0 ? 10 : 1;
  for (int from = 0; from < types; ++from) {
    for (int to = 0; to < types; ++to) {
      for (const int from_tp : kTensorDegrees) {
        for (const int to_tp : kTensorDegrees) {
          profile.links[{from, from_tp, to, to_tp}] = {-0.001 / slowness,
                                                       Pick(random, 0.05, 0.2) / slowness,
                                                       Pick(random, 0.5, 4) / slowness};
        }
      }
    }
  }
  return profile;
}

class Enumerator {
 public:
  explicit Enumerator(const Task& task) : task_(task), left_(task.accelerators) {}

  double Best() {
    for (plan_.replicas = 1; plan_.replicas <= 12; ++plan_.replicas) {
      for (plan_.micro_batch = 1; plan_.micro_batch <= 2; ++plan_.micro_batch) {
        if (task_.global_batch % (plan_.replicas * plan_.micro_batch) == 0) Place(0);
      }
    }
    return best_;
  }

 private:
  void Place(int first) {
    const Profile& profile = *task_.profile;
    if (first == profile.layers) {
      if (!Fits(profile, plan_)) return;
      best_ = std::min(best_, IterationSeconds(profile, task_.global_batch, plan_));
      return;
    }
    for (size_t type = 0; type < profile.types.size(); ++type) {
      for (const int tp : kTensorDegrees) {
        const int64_t taken = plan_.replicas * tp;
        if (left_[type] < taken ||
            !profile.types[type].times.contains({static_cast<int>(plan_.micro_batch), tp})) {
          continue;
        }
        left_[type] -= taken;
        for (int last = first + 1; last <= profile.layers; ++last) {
          plan_.stages.push_back({static_cast<int>(type), tp, first, last});
          Place(last);
          plan_.stages.pop_back();
        }
        left_[type] += taken;
      }
    }
  }

  const Task& task_;
  std::vector<int64_t> left_;
  SailorPlan plan_;
  double best_ = kInfinity;
};

TEST(FindPlanTest, EqualsEveryPlanTried) {
  int feasible = 0;
  int long_pipelines = 0;
  for (uint32_t seed = 0; seed < kInstances; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Profile profile = RandomProfile(random);
    Task task;
    task.profile = &profile;
    task.global_batch = 4 << (random() % 5);
    for (size_t i = 0; i < profile.types.size(); ++i) {
      task.accelerators.push_back(1 + static_cast<int64_t>(random() % 12));
    }
    const double best = Enumerator(task).Best();
    const Answer answer = FindPlan(task);
    ASSERT_EQ(answer.plan.has_value(), best < kInfinity);
    if (!answer.plan.has_value()) continue;
    ++feasible;
    if (answer.plan->stages.size() > 3) ++long_pipelines;
    EXPECT_NEAR(answer.seconds, best, 1e-9 * best);
    // The search does not grade itself.
    EXPECT_NEAR(IterationSeconds(profile, task.global_batch, *answer.plan), answer.seconds,
                1e-9 * best);
    EXPECT_TRUE(Fits(profile, *answer.plan));
    std::vector<int64_t> used(profile.types.size());
    int layer = 0;
    for (const Stage& stage : answer.plan->stages) {
      EXPECT_EQ(stage.first, layer);
      layer = stage.last;
      used[static_cast<size_t>(stage.type)] += answer.plan->replicas * stage.tp;
    }
    EXPECT_EQ(layer, profile.layers);
    for (size_t i = 0; i < used.size(); ++i) EXPECT_LE(used[i], task.accelerators[i]);
  }
  // Or too little was put to the test.
  EXPECT_GT(feasible * 2, static_cast<int>(kInstances));
  EXPECT_LT(feasible, static_cast<int>(kInstances));
  EXPECT_GT(long_pipelines, 0);
  RecordProperty("feasible", feasible);
  RecordProperty("long_pipelines", long_pipelines);
}

}  // namespace
}  // namespace hapmoe::bench::sailor
