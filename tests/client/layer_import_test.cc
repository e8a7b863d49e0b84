#include "client/layer_import.h"

#include <random>
#include <string>

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
       }) {
    v1::LayerTable table;
    const absl::Status status = ImportLayers(one.format, one.path, one.text, table);
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.says));
    EXPECT_EQ(table.micro_batch_size(), 0);
  }
}

TEST(LayerImport, ChangedBytesAreFaultsOrTimesInRange) {
  std::mt19937 random(20);  // Deterministic: a failure repeats.
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool sailor = round % 2 == 0;
    std::string text = sailor ? kSailor : kMetis;
    for (int i = 0; i < 2; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    v1::LayerTable table;
    const absl::Status status =
        ImportLayers(sailor ? LayerFormat::kSailor : LayerFormat::kMetis, kMetisName, text, table);
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
