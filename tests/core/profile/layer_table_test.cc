#include "core/profile/layer_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "core/profile/accelerator_profile.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::profile {
namespace {

constexpr LayerShape kShape = {.hidden = 1024,
                               .ffn_hidden = 4096,
                               .heads = 16,
                               .query_groups = 16,
                               .seq_length = 2048,
                               .precision = MatrixPrecision::kBf16};

LayerTable Table() {
  return {kShape, {{1, 2, 1.0, 2.0}, {1, 8, 4.0, 14.0}, {2, 4, 9.0, 9.5}}, false, "test"};
}

TEST(LayerTable, InterpolatesBetweenMicroBatchesOfOneDegree) {
  const std::optional<LayerTimes> measured = Table().At(1, 8);
  ASSERT_TRUE(measured.has_value());
  EXPECT_TRUE(measured->measured);
  EXPECT_DOUBLE_EQ(measured->forward_seconds, 4);
  EXPECT_DOUBLE_EQ(measured->backward_seconds, 14);
  const std::optional<LayerTimes> between = Table().At(1, 4);  // A third of the way from 2 to 8.
  ASSERT_TRUE(between.has_value());
  EXPECT_FALSE(between->measured);
  EXPECT_DOUBLE_EQ(between->forward_seconds, 2);
  EXPECT_DOUBLE_EQ(between->backward_seconds, 6);
}

TEST(LayerTable, AnswersNothingBeyondTwiceTheLargestOrHalfTheSmallest) {
  EXPECT_DOUBLE_EQ(Table().At(1, 16)->forward_seconds, 8);
  EXPECT_DOUBLE_EQ(Table().At(1, 1)->backward_seconds, 1);
  EXPECT_FALSE(Table().At(1, 16)->measured);
  EXPECT_FALSE(Table().At(1, 17).has_value());
  EXPECT_FALSE(Table().At(2, 1).has_value());
  EXPECT_FALSE(Table().At(4, 4).has_value());
}

TEST(LayerTable, MatchesItsVeryShape) {
  const std::vector<std::function<void(LayerShape&)>> changes = {
      [](LayerShape& s) { s.hidden *= 2; },
      [](LayerShape& s) { s.ffn_hidden *= 2; },
      [](LayerShape& s) { s.gated_mlp = true; },
      [](LayerShape& s) { s.heads *= 2; },
      [](LayerShape& s) { s.query_groups = 1; },
      [](LayerShape& s) { s.seq_length *= 2; },
      [](LayerShape& s) { s.precision = MatrixPrecision::kFp32; },
  };
  for (const auto& change : changes) {
    LayerShape other = kShape;
    change(other);
    EXPECT_FALSE(kShape.Matches(other));
  }
  LayerShape half = kShape;
  half.precision = MatrixPrecision::kFp16;
  EXPECT_TRUE(kShape.Matches(half));
}

TEST(LayerTable, CountsOperations) {
  // 4 h^2 of attention and 8 h^2 of the MLP, two operations each; s / 2 keys, four each and column.
  EXPECT_DOUBLE_EQ(LayerFlops(kShape, 3),
                   3.0 * 2048 * (2 * 12.0 * 1024 * 1024 + 4 * 1024 * 1024.0));
}

TEST(LayerTable, FaultsAreNamed) {
  struct Case {
    const char* rule;
    const char* field;
    std::function<void(LayerShape&, std::vector<LayerSample>&)> change;
  };
  const std::vector<Case> cases = {
      {"layer_size_in_range", "profile.layers[0].hidden_size",
       [](LayerShape& s, auto&) { s.hidden = 0; }},
      {"layer_heads_divide", "profile.layers[0].attention_heads",
       [](LayerShape& s, auto&) { s.heads = 15; }},
      {"table_precision_supported", "profile.layers[0].precision",
       [](LayerShape& s, auto&) { s.precision = MatrixPrecision::kFp8; }},
      {"layer_samples_in_range", "profile.layers[0]", [](auto&, auto& list) { list.clear(); }},
      {"layer_sample_unique", "profile.layers[0].micro_batch[1]",
       [](auto&, auto& list) { list.push_back(list[0]); }},
      {"layer_sample_in_range", "profile.layers[0].tensor_parallel[0]",
       [](auto&, auto& list) { list[0].tp = 0; }},
      {"sample_seconds_in_range", "profile.layers[0].backward_microseconds[0]",
       [](auto&, auto& list) { list[0].backward_seconds = -1; }},
      // 172e9 operations at 1e12 a second need 0.17 s.
      {"sample_within_peak", "profile.layers[0].forward_microseconds[0]",
       [](auto&, auto& list) { list[0].forward_seconds = list[0].backward_seconds = 0.05; }},
  };
  AcceleratorProfile base = testing::UnitProfile("unit");
  const Violations before = Validate(base);
  for (const Case& one : cases) {
    LayerShape shape = kShape;
    std::vector<LayerSample> samples = {{1, 1, 1.0, 2.0}};
    AcceleratorProfile profile = base;
    profile.layers = {LayerTable(shape, samples, false, "test")};
    ASSERT_EQ(Validate(profile).size(), before.size());
    one.change(shape, samples);
    profile.layers = {LayerTable(shape, samples, false, "test")};
    const Violations after = Validate(profile);
    ASSERT_EQ(after.size(), before.size() + 1) << one.rule;
    bool found = false;
    for (const Violation& v : after) found |= v.rule == one.rule && v.field == one.field;
    EXPECT_TRUE(found) << one.rule;
  }
  base.layers = {Table(), Table()};
  bool found = false;
  for (const Violation& v : Validate(base)) found |= v.rule == "layer_shape_unique";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace hapmoe::profile
