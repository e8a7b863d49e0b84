#include "client/layer_import.h"

#include <array>
#include <random>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two degrees; the second decoder layer's times are the median.
constexpr char kSailor[] = R"({"4": {
  "1": {"0": [9, 9, 9], "1": [0.5, 1, 9], "2": [0.25, 0.75, 9], "3": [0.125, 0.5, 9], "4": [9, 9, 9]},
  "2": {"0": [9, 9, 9], "1": [0.125, 0.25, 9], "2": [9, 9, 9]}}})";
constexpr char kMetis[] =
    R"({"execution_time": {"layer_compute_total_ms": [0.5, 30, 30, 33, 0.25]}})";
// Written by hand: two batches, another sequence, what surrounds a layer, part of one, another
// type.
constexpr char kGalvatron[] =
    R"({"layernum[2]_bsz4_seq2048": 80.5, "layernum[4]_bsz4_seq2048": 104.5,
  "layertype_0_bsz4_seq2048": 3, "layertype_other_bsz4_seq2048": 1.5, "layertype_0_bsz1_seq2048": 5,
  "layertype_0_bsz1_seq4096": 11, "layertype_0_bsz2_seq2048_mlp": 2, "layertype_1_bsz2_seq2048": 7})";
constexpr char kMetisName[] = "some_dir/DeviceType.A100_tp2_bs8.json";

TEST(LayerImport, SailorGivesBothPassesOfTheMedianLayer) {
  v1::LayerTable table;
  ASSERT_TRUE(ImportLayers(LayerFormat::kSailor, "profile.json", kSailor, table).ok());
  EXPECT_THAT(table.tensor_parallel(), ElementsAre(1, 2));
  EXPECT_THAT(table.micro_batch(), ElementsAre(4, 4));
  EXPECT_THAT(table.forward_microseconds(), ElementsAre(250000, 125000));
  EXPECT_THAT(table.backward_microseconds(), ElementsAre(750000, 250000));
}

TEST(LayerImport, MetisIsSplitOneToTwoAndReplacesWhatWasThere) {
  v1::LayerTable table;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(ImportLayers(LayerFormat::kMetis, kMetisName, kMetis, table).ok());
  }
  EXPECT_THAT(table.tensor_parallel(), ElementsAre(2));
  EXPECT_THAT(table.micro_batch(), ElementsAre(8));
  EXPECT_NEAR(table.forward_microseconds(0), 10000, 1e-6);
  EXPECT_NEAR(table.backward_microseconds(0), 20000, 1e-6);
}

TEST(LayerImport, GalvatronGivesOneLayerForEachSampleForward) {
  v1::LayerTable table;
  table.set_sequence_length(2048);
  ASSERT_TRUE(ImportLayers(LayerFormat::kGalvatron, "profile.json", kGalvatron, table).ok());
  EXPECT_THAT(table.tensor_parallel(), ElementsAre(1, 1));
  EXPECT_THAT(table.micro_batch(), ElementsAre(1, 4));
  EXPECT_THAT(table.forward_microseconds(), ElementsAre(5000, 12000));
  EXPECT_THAT(table.backward_microseconds(), ElementsAre(10000, 24000));
}

TEST(LayerImport, FaultsNameFileAndPlace) {
  struct Case {
    LayerFormat format;
    const char* path;
    const char* text;
    const char* says;
  };
  for (const Case& one : {
           Case{LayerFormat::kSailor, "a", "[", "a: the file must be a JSON object"},
           {LayerFormat::kSailor, "a", "{}", "a: the file holds no layer times"},
           {LayerFormat::kSailor, "a", R"({"x": {}})", "a: /x must be a micro-batch"},
           {LayerFormat::kSailor, "a", R"({"1": {"2": 3}})", "a: /1/2 must be a tensor"},
           {LayerFormat::kSailor, "a", R"({"1": {"2": {}}})", "a: /1/2 must hold"},
           {LayerFormat::kSailor, "a", R"({"1": {"2": {"0": 1, "1": [1, -1, 1], "2": 1}}})",
            "a: /1/2/1/1 must be a time"},
           {LayerFormat::kMetis, "a.json", kMetis, "a.json: the file must be named"},
           {LayerFormat::kMetis, kMetisName, "{}", "/execution_time must be"},
           {LayerFormat::kMetis, kMetisName,
            R"({"execution_time": {"layer_compute_total_ms": [1, "x", 1]}})",
            "layer_compute_total_ms/1 must be a time"},
           {LayerFormat::kGalvatron, "a", "{}", "a: the file holds no layertype_0_bszB_seqS"},
           {LayerFormat::kGalvatron, "a", kGalvatron, "a: the file holds sequences of 2048, 4096 "},
           {LayerFormat::kGalvatron, "a", R"({"layertype_0_bsz1_seq512": "x"})",
            "a: /layertype_0_bsz1_seq512 must be a time"},
           {LayerFormat::kGalvatron, "a", R"({"layertype_0_bsz4096_seq512": 1e6})",
            "a: /layertype_0_bsz4096_seq512 times its samples exceeds an hour"},
           {LayerFormat::kGalvatron, "a", R"({"layertype_0_bsz0_seq512": 1})",
            "holds no layertype"},
           {LayerFormat::kGalvatron, "a", R"({"layertype_0": {}, "other_memory_pp_off": {}})",
            "a: the file is a memory profile"},
       }) {
    v1::LayerTable table;
    table.set_sequence_length(512);
    const absl::Status status = ImportLayers(one.format, one.path, one.text, table);
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.says));
    EXPECT_EQ(table.micro_batch_size(), 0);
  }
}

TEST(LayerImport, ChangedBytesAreFaultsOrTimesInRange) {
  const std::array kFiles = {std::pair{LayerFormat::kSailor, kSailor},
                             std::pair{LayerFormat::kMetis, kMetis},
                             std::pair{LayerFormat::kGalvatron, kGalvatron}};
  std::mt19937 random(20);  // Deterministic: a failure repeats.
  int refused = 0;
  for (size_t round = 0; round < 3000; ++round) {
    const auto& [format, sound] = kFiles[round % kFiles.size()];
    std::string text = sound;
    for (int i = 0; i < 2; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    v1::LayerTable table;
    table.set_sequence_length(2048);
    const absl::Status status = ImportLayers(format, kMetisName, text, table);
    refused += status.ok() ? 0 : 1;
    EXPECT_EQ(status.ok(), table.micro_batch_size() > 0);
    for (const double time : table.forward_microseconds()) {
      EXPECT_TRUE(time > 0 && time <= 3600e6) << text;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(LayerImport, OneTableHoldsOneShape) {
  v1::AcceleratorProfile profile;
  v1::LayerTable shape;
  shape.set_hidden_size(8);
  TableOfShape(shape, profile);
  TableOfShape(shape, profile);
  EXPECT_EQ(profile.layers_size(), 1);
  shape.set_gated_mlp(true);
  TableOfShape(shape, profile);
  EXPECT_EQ(profile.layers_size(), 2);
}

}  // namespace
}  // namespace hapmoe::client
