#include "tests/bench/sailor/cost.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/sailor/profile.h"

namespace hapmoe::bench::sailor {
namespace {

// Four layers on "a" and "b". Every layer passes a micro-batch of 1 in 3 s on a, 5 s on b, at any
// degree, and layer i is updated in 10 + i s on a, 20 + i s on b. Layer i hands on (i + 1) x 250e6
// numbers: (i + 1) GB. Links: 1 GB/s within a, 2 GB/s within b, 0.5 GB/s from a to b, 0.25 GB/s
// back.
Profile UnitProfile() {
  Profile profile;
  profile.layers = 4;
  for (const double scale : {1, 2}) {
    AcceleratorType type;
    type.name = scale == 1 ? "a" : "b";
    type.memory_bytes = 20e9;
    for (const int tp : kTensorDegrees) {
      LayerTimes& times = type.times[{1, tp}];
      times.pass.assign(4, 1 + 2 * scale);
      for (int i = 0; i < 4; ++i) times.update.push_back(10 * scale + i);
    }
    profile.types.push_back(type);
  }
  for (const int tp : kTensorDegrees) {
    profile.sizes[tp].parameters.assign(4, 100e6 / tp);
    profile.sizes[tp].activations.assign(4, 500e6);
  }
  profile.outputs = {250e6, 500e6, 750e6, 1000e6};
  const double rates[2][2] = {{1, 0.5}, {0.25, 2}};
  for (int from = 0; from < 2; ++from) {
    for (int to = 0; to < 2; ++to) {
      for (const int from_tp : kTensorDegrees) {
        for (const int to_tp : kTensorDegrees) {
          profile.links[{from, from_tp, to, to_tp}] = {0, 0, rates[from][to]};
        }
      }
    }
  }
  return profile;
}

TEST(BandwidthTest, IsAPolynomialOfTheLogarithmOfMegabytes) {
  // 4 MB: x = 2, 2 x 4 + 3 x 2 + 1 = 15 GB/s.
  EXPECT_DOUBLE_EQ((Bandwidth{2, 3, 1}).Seconds(4e6), 4e-3 / 15);
  EXPECT_EQ((Bandwidth{2, 3, 1}).Seconds(0), 0);
}

TEST(AllReduceTest, PassesBucketsOneAfterAnother) {
  const Bandwidth link{0, 0, 1};
  // 2 x 3 steps of 100 MB.
  EXPECT_DOUBLE_EQ(AllReduceSeconds(link, 400e6, 4), 0.6);
  // Buckets of 500, 500 and 200 MB on 4 replicas: 6 x (0.125 + 0.125 + 0.05).
  EXPECT_DOUBLE_EQ(AllReduceSeconds(link, 1200e6, 4), 1.8);
  EXPECT_EQ(AllReduceSeconds(link, 400e6, 1), 0);
  // A bucket is as fast as a message of its part is: x = log2(125) for the whole ones.
  const Bandwidth sloped{0, 1, 1};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(sloped, 700e6, 4),
                   6 * (sloped.Seconds(125e6) + sloped.Seconds(50e6)));
}

TEST(MemoryTest, CountsParametersActivationsAndTheFramework) {
  // 24 x 100e6 + 4 x 10e6 x (2 x 3) + 2e9, and 1e9 more where a tensor-parallel group is set up.
  EXPECT_DOUBLE_EQ(MemoryBytes(100e6, 10e6, 2, 3, 1), 4.64e9);
  EXPECT_DOUBLE_EQ(MemoryBytes(100e6, 10e6, 2, 3, 2), 5.64e9);
}

TEST(IterationSecondsTest, MatchesHandCalculation) {
  const Profile profile = UnitProfile();
  struct Case {
    std::string name;
    std::vector<Stage> stages;
    int64_t replicas;
    double seconds;
  };
  // Global batch 8, micro-batch 1.
  const std::vector<Case> cases = {
      // m = 8, no transfers: 7 x 12 + 12 + 10. All-reduce over one replica: 0.
      {"one stage", {{0, 1, 0, 4}}, 1, 106},
      // m = 4. 3 x 12 + 12 + 10 + all-reduce of 4 x 400e6 / 2 = 800 MB over 2 replicas at 1 GB/s:
      // 2 x (0.25 + 0.15).
      {"two replicas, tp 2", {{0, 2, 0, 4}}, 2, 58.8},
      // a: 6 s + 2 GB at 0.5 = 10. b: 10 s + twice 3 GB at 0.25 = 34. 7 x 34 + 44, update of layer
      // 2
      // on b.
      {"two stages", {{0, 1, 0, 2}, {1, 1, 2, 4}}, 1, 7 * 34 + 44 + 22},
      // a: 3 + 1 GB at 1 = 4. a: 3 + 2 GB at 0.5 + 2 GB at 1 = 9. b: 10 + twice 3 GB at 0.25 = 34.
      {"three stages", {{0, 1, 0, 1}, {0, 1, 1, 2}, {1, 1, 2, 4}}, 1, 7 * 34 + 47 + 22},
      // b: 5 + twice 1 GB at 2 = 6. b: 5 + 2 GB at 2 + 2 GB at 2 = 7. b: 5 + 3 GB at 0.25 + 3 GB
      // at 2 = 18.5. a: 3 + twice 4 GB at 0.5 = 19.
      {"four stages: the first sends twice",
       {{1, 1, 0, 1}, {1, 1, 1, 2}, {1, 1, 2, 3}, {0, 1, 3, 4}},
       1,
       7 * 19 + 50.5 + 22},
  };
  for (const Case& c : cases) {
    const SailorPlan plan{c.replicas, 1, c.stages};
    EXPECT_NEAR(IterationSeconds(profile, 8, plan), c.seconds, 1e-9) << c.name;
  }
}

TEST(FitsTest, FrontStagesKeepMoreMicroBatches) {
  Profile profile = UnitProfile();
  const SailorPlan plan{1, 1, {{0, 1, 0, 1}, {0, 1, 1, 2}, {1, 1, 2, 4}}};
  // First: 2.4e9 + 3 x 2e9 + 2e9 = 10.4e9. Last: 4.8e9 + 4e9 + 2e9 = 10.8e9.
  profile.types[0].memory_bytes = 10.4e9;
  profile.types[1].memory_bytes = 10.8e9;
  EXPECT_TRUE(Fits(profile, plan));
  profile.types[0].memory_bytes = 10.39e9;
  EXPECT_FALSE(Fits(profile, plan));
  profile.types[0].memory_bytes = 10.4e9;
  profile.types[1].memory_bytes = 10.79e9;
  EXPECT_FALSE(Fits(profile, plan));
}

std::string Shipped(const std::string& name) {
  std::ifstream file(absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/bench/sailor/", name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ParseProfileTest, ReadsWhatIsShipped) {
  const auto profile = ParseProfile(Shipped("OPT-350.json"));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->layers, 26);
  ASSERT_EQ(profile->types.size(), 3u);
  const int a100 = profile->TypeOf("A100-40");
  EXPECT_EQ(profile->TypeOf("T4"), -1);
  EXPECT_EQ(profile->types[static_cast<size_t>(a100)].memory_bytes, 42949672960);
  // Embedding: forward 0.0004, backward 0.000003.
  const LayerTimes& times = profile->types[static_cast<size_t>(a100)].times.at({1, 1});
  EXPECT_DOUBLE_EQ(times.pass[0], 0.000403);
  EXPECT_DOUBLE_EQ(times.update[0], 0.002938);
  EXPECT_EQ(profile->sizes.at(2).parameters[0], 27918336);
  // 8 MB: x = 3; -0.0024414231 x 9 + 0.1408627339 x 3 + 1.1168227571 = 1.5174381507 GB/s.
  EXPECT_NEAR(profile->link(a100, 1, a100, 4).Seconds(8e6), 8e-3 / 1.5174381507, 1e-10);
  EXPECT_TRUE(ParseProfile(Shipped("GPT-Neo-2.7.json")).ok());
}

TEST(ParseProfileTest, NamesWhatIsMissing) {
  EXPECT_EQ(ParseProfile("[").status().message(), "not a JSON object");
  EXPECT_EQ(ParseProfile(R"({"dtype_bytes": 4})").status().message(), "no number \"layers\"");
}

}  // namespace
}  // namespace hapmoe::bench::sailor
