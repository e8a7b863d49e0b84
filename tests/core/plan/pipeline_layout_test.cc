// Layout strings and splits, with the layers of every stage counted by hand.
#include "core/plan/pipeline_layout.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

model::TransformerSpec ModelOf(int64_t layers, int64_t mtp_layers = 0) {
  model::TransformerSpec model;
  model.layers = layers;
  model.mtp_layers = mtp_layers;
  return model;
}

// "first+layers" of every chunk, m for each MTP layer, chunks of a rank apart by a blank.
std::vector<std::string> Shown(const std::vector<std::vector<Chunk>>& ranks) {
  std::vector<std::string> shown;
  for (const std::vector<Chunk>& chunks : ranks) {
    std::string text;
    for (const Chunk& chunk : chunks) {
      if (!text.empty()) text += " ";
      text += (chunk.embedding ? "E" : "") + std::to_string(chunk.first_layer) + "+" +
              std::to_string(chunk.layers) +
              std::string(static_cast<size_t>(chunk.mtp_layers), 'm') + (chunk.loss ? "L" : "");
    }
    shown.push_back(text);
  }
  return shown;
}

std::vector<std::string> Split(const ParallelSpec& parallel, int64_t layers, int64_t mtp = 0) {
  return Shown(SplitIntoStages(parallel, ModelOf(layers, mtp)));
}

ParallelSpec Layout(int64_t pp, const std::string& text) {
  ParallelSpec parallel;
  parallel.pp = pp;
  parallel.layout = text;
  return parallel;
}

TEST(ParsePipelineLayout, WritesRepetitionsOut) {
  EXPECT_THAT(ParsePipelineLayout("Et*3|t*2|tL").stages, ElementsAre("Ettt", "tt", "tL"));
  EXPECT_THAT(ParsePipelineLayout("E,t,|,t,L").stages, ElementsAre("Et", "tL"));
  EXPECT_THAT(ParsePipelineLayout("E(t|)*3L").stages, ElementsAre("Et", "t", "t", "L"));
  EXPECT_THAT(ParsePipelineLayout("E(t*2|)*2L").stages, ElementsAre("Ett", "tt", "L"));
  EXPECT_THAT(ParsePipelineLayout("E||t|L").stages, ElementsAre("E", "", "t", "L"));
  EXPECT_THAT(ParsePipelineLayout("E|*3L").stages, ElementsAre("E", "", "", "L"));
  EXPECT_THAT(ParsePipelineLayout("Et*0L").stages, ElementsAre("EL"));
  EXPECT_THAT(ParsePipelineLayout("(t)*0").stages, ElementsAre(""));
  EXPECT_THAT(ParsePipelineLayout("").stages, ElementsAre(""));
  EXPECT_THAT(ParsePipelineLayout("|").stages, ElementsAre("", ""));
  // DeepSeek-V3: 1 + 29 + 2 stages.
  EXPECT_THAT(ParsePipelineLayout("Et*3|(tt|)*29,m|L").stages, SizeIs(32));
}

TEST(ParsePipelineLayout, RefusesOtherText) {
  for (const char* text : {"Et L", "ett", "Etd", "t*2*4", "((t)*2|)*4", "(t", "t)", "(t)", "()*2",
                           "t*", "*2", "t**2", "t*-1", "E;L", "t\n", "t\xc3\xa9"}) {
    const PipelineLayout layout = ParsePipelineLayout(text);
    EXPECT_FALSE(layout.ok()) << text;
    EXPECT_THAT(layout.stages, IsEmpty());
  }
  EXPECT_THAT(ParsePipelineLayout("Et L").fault, HasSubstr("a blank"));
  EXPECT_THAT(ParsePipelineLayout("Etd").fault, HasSubstr("'d'"));
}

TEST(ParsePipelineLayout, BoundsWhatItWritesOut) {
  EXPECT_TRUE(ParsePipelineLayout("t*65536").ok());
  for (const std::string& text :
       {std::string("t*65537"), std::string("t*99999999999999999999999"),
        std::string("(t*9999)*9999"), std::string("(tttt)*20000"), std::string(70000, 't')}) {
    EXPECT_THAT(ParsePipelineLayout(text).fault, HasSubstr("longer than")) << text.substr(0, 20);
  }
}

TEST(SplitIntoStages, FollowsALayout) {
  EXPECT_THAT(Split(Layout(4, "Et*7|t*9|t*9|t*7L"), 32),
              ElementsAre("E0+7", "7+9", "16+9", "25+7L"));
  EXPECT_THAT(Split(Layout(4, "E||t|L"), 1), ElementsAre("E0+0", "0+0", "0+1", "1+0L"));
  // Stage i is chunk i / 2 of rank i % 2.
  EXPECT_THAT(Split(Layout(2, "Et|t|t|tmL"), 4, 1), ElementsAre("E0+1 2+1", "1+1 3+1mL"));
  EXPECT_THAT(Split(Layout(2, "Ettm|L"), 2, 1), ElementsAre("E0+2m", "2+0L"));
}

TEST(SplitIntoStages, PutsTheLossLastWhereverTheLayoutSaysIt) {
  EXPECT_THAT(Split(Layout(4, "Etttt|tttt|L|"), 8), ElementsAre("E0+4", "4+4", "8+0", "8+0L"));
}

TEST(SplitIntoStages, IsEvenByDefault) {
  EXPECT_THAT(Split({.pp = 1}, 4, 2), ElementsAre("E0+4mmL"));
  EXPECT_THAT(Split({.pp = 4}, 8, 1), ElementsAre("E0+2", "2+2", "4+2", "6+2mL"));
  // 8 layers on 2 ranks in 4 virtual stages of 2 layers.
  EXPECT_THAT(Split({.pp = 2, .virtual_stages_per_rank = 2}, 8),
              ElementsAre("E0+2 4+2", "2+2 6+2L"));
  EXPECT_THAT(Split({.pp = 2, .layers_per_virtual_stage = 1}, 8),
              ElementsAre("E0+1 2+1 4+1 6+1", "1+1 3+1 5+1 7+1L"));
}

TEST(SplitIntoStages, TakesTheEndsAsLayers) {
  // (6 + 2) / 4 = 2 a stage, one less at either end.
  EXPECT_THAT(Split({.pp = 4, .account_for_embedding = true, .account_for_loss = true}, 6),
              ElementsAre("E0+1", "1+2", "3+2", "5+1L"));
  EXPECT_THAT(Split({.pp = 2, .account_for_loss = true}, 7), ElementsAre("E0+4", "4+3L"));
  // (6 + 2) / 2 = 4 a rank, 2 a chunk.
  EXPECT_THAT(Split({.pp = 2,
                     .virtual_stages_per_rank = 2,
                     .account_for_embedding = true,
                     .account_for_loss = true},
                    6),
              ElementsAre("E0+1 3+2", "1+2 5+1L"));
  EXPECT_THAT(Split({.pp = 1, .account_for_embedding = true, .account_for_loss = true}, 3),
              ElementsAre("E0+3L"));
}

TEST(SplitIntoStages, TakesFirstAndLastStageAsGiven) {
  EXPECT_THAT(Split({.pp = 4, .first_stage_layers = 1, .last_stage_layers = 3}, 8),
              ElementsAre("E0+1", "1+2", "3+2", "5+3L"));
  EXPECT_THAT(Split({.pp = 3, .last_stage_layers = 2}, 8), ElementsAre("E0+3", "3+3", "6+2L"));
  // 2, 4 and 2 layers in two chunks each: 1 + 2 + 1 layers in each turn of the pipeline.
  EXPECT_THAT(
      Split(
          {.pp = 3, .virtual_stages_per_rank = 2, .first_stage_layers = 2, .last_stage_layers = 2},
          8),
      ElementsAre("E0+1 4+1", "1+2 5+2", "3+1 7+1L"));
}

TEST(PipelineLayoutString, IsReadBackAsTheSameStages) {
  const ParallelSpec splits[] = {
      {.pp = 1},
      {.pp = 4},
      {.pp = 2, .virtual_stages_per_rank = 3},
      {.pp = 4, .first_stage_layers = 1, .last_stage_layers = 3},
      {.pp = 3, .virtual_stages_per_rank = 2, .first_stage_layers = 2, .last_stage_layers = 2},
      Layout(4, "E|t*5|t*7|L"),
      Layout(2, "Et*4|t*4|t*4|mL"),
  };
  for (const ParallelSpec& parallel : splits) {
    const model::TransformerSpec model = ModelOf(12, parallel.layout ? 1 : 2);
    const std::vector<std::vector<Chunk>> chunks = SplitIntoStages(parallel, model);
    std::vector<Stage> stages;
    for (const std::vector<Chunk>& rank : chunks) stages.push_back({rank, {}});
    const std::string text = PipelineLayoutString(stages);
    EXPECT_EQ(text.find_first_not_of("EtmL|"), std::string::npos) << text;
    EXPECT_EQ(SplitIntoStages(Layout(parallel.pp, text), model), chunks) << text;
  }
  EXPECT_EQ(PipelineLayoutString({}), "");
  const std::vector<Stage> stages = {{{{.layers = 4, .embedding = true}}, {}},
                                     {{{.first_layer = 4, .layers = 4}}, {}},
                                     {{{.first_layer = 8, .layers = 4, .loss = true}}, {}}};
  EXPECT_EQ(PipelineLayoutString(stages), "Etttt|tttt|ttttL");
}

}  // namespace
}  // namespace hapmoe::plan
