#include "core/plan/engine_traits.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace hapmoe::plan {
namespace {

// 12 layers, the first two dense.
model::TransformerSpec TwoDenseLayers() {
  model::TransformerSpec model;
  model.layers = 12;
  model.moe.emplace().experts = 8;
  model.layer_kinds.assign(12, model::LayerKind::kMoe);
  model.layer_kinds[0] = model.layer_kinds[1] = model::LayerKind::kDense;
  return model;
}

TEST(EngineTraits, EnginesAreKnownByDifferentNames) {
  std::set<std::string> names;
  for (const EngineTraits& engine : Engines()) {
    EXPECT_TRUE(names.emplace(engine.name).second) << engine.name;
    EXPECT_EQ(FindEngine(engine.name), &engine);
  }
  EXPECT_EQ(FindEngine("deepspeed"), nullptr);
  EXPECT_EQ(FindEngine(kMegatronBridge)->space, FindEngine(kMegatronLm)->space);
  EXPECT_NE(FindEngine(kMindSpeedLlm)->space, FindEngine(kMegatronLm)->space);
}

TEST(EngineTraits, RulesOfMindSpeedAreItsOwn) {
  const struct {
    Degrees degrees;
    int64_t stages;
    int64_t virtual_stages;
    const char* rule;
  } cases[] = {
      {{.tp = 4, .cp = 1, .dp = 2, .ep = 2, .etp = 4}, 4, 1, ""},
      {{.tp = 4, .cp = 1, .dp = 2, .ep = 8, .etp = 1}, 4, 1, ""},
      {{.tp = 4, .cp = 1, .dp = 2, .ep = 2, .etp = 2}, 4, 1, "mindspeed_expert_tensor_parallel"},
      {{.tp = 1, .cp = 1, .dp = 8, .ep = 8, .etp = 1}, 4, 2, "engine_virtual_stages"},
      // 12 / 6 = 2 layers, as many as are dense; 12 / 5 = 2 as well, and 12 / 4 = 3.
      {{.tp = 1, .cp = 1, .dp = 1, .ep = 1, .etp = 1}, 6, 1, "mindspeed_dense_layers_fill_a_stage"},
      {{.tp = 1, .cp = 1, .dp = 1, .ep = 1, .etp = 1}, 5, 1, "mindspeed_dense_layers_fill_a_stage"},
      {{.tp = 1, .cp = 1, .dp = 1, .ep = 1, .etp = 1}, 1, 1, ""},
  };
  const model::TransformerSpec model = TwoDenseLayers();
  for (const auto& one : cases) {
    EXPECT_EQ(BrokenEngineRule(*FindEngine(kMindSpeedLlm), model, one.degrees, one.stages,
                               one.virtual_stages),
              one.rule);
    EXPECT_EQ(
        BrokenEngineRule(*FindEngine(kPrimus), model, one.degrees, one.stages, one.virtual_stages),
        "");
  }
}

TEST(EngineTraits, APlanIsAskedForItsRecomputationToo) {
  Plan plan;
  plan.meshes.push_back({0, {}, {{{{0, 12, true, 0, true}}, {}}}});
  const model::TransformerSpec model = TwoDenseLayers();
  EXPECT_TRUE(CheckEnginePlan(*FindEngine(kMindSpeedLlm), model, plan).empty());
  plan.meshes[0].stages[0].recompute.granularity = model::Recompute::Granularity::kSelective;
  plan.meshes[0].stages[0].recompute.modules = model::kRecomputeMlp;
  const Violations violations = CheckEnginePlan(*FindEngine(kMindSpeedLlm), model, plan);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].rule, "recompute_is_full");
  EXPECT_TRUE(CheckEnginePlan(*FindEngine(kMegatronLm), model, plan).empty());
}

}  // namespace
}  // namespace hapmoe::plan
