// Tables of profiles as they come in: columns that do not fit each other, and columns of anything.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/wire/from_wire.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Rules(const Violations& violations) {
  std::vector<std::string> rules;
  for (const Violation& violation : violations) rules.push_back(violation.rule);
  return rules;
}

// Products of 128^3 in a microsecond each.
v1::OperationTable* AddTable(v1::AcceleratorProfile& wire, int samples) {
  v1::OperationTable* table = wire.add_tables();
  table->set_kind(v1::OPERATION_KIND_GEMM);
  table->set_precision(v1::PRECISION_BF16);
  table->set_stated_error(9);
  for (int i = 0; i < samples; ++i) {
    table->add_m(128);
    table->add_n(128);
    table->add_k(128);
    table->add_groups(1);
    table->add_microseconds(1);
  }
  return table;
}

TEST(ProfileTables, ColumnsOfUnequalLengthAreFaults) {
  using Grow = void (*)(v1::OperationTable&);
  for (const Grow grow : {Grow([](v1::OperationTable& t) { t.add_m(1); }),
                          Grow([](v1::OperationTable& t) { t.add_n(1); }),
                          Grow([](v1::OperationTable& t) { t.add_k(1); }),
                          Grow([](v1::OperationTable& t) { t.add_groups(1); }),
                          Grow([](v1::OperationTable& t) { t.add_microseconds(1); })}) {
    v1::AcceleratorProfile wire = RoundProfile("Unit-1");
    grow(*AddTable(wire, 3));
    Violations violations;
    ProfileFromWire(wire, violations);
    EXPECT_THAT(Rules(violations), ElementsAre("table_columns_equal"));
  }
}

TEST(ProfileTables, LayersComeInWithTheirColumns) {
  v1::AcceleratorProfile wire = RoundProfile("Unit-1");
  v1::LayerTable* table = wire.add_layers();
  table->set_hidden_size(256);
  table->set_ffn_hidden_size(1024);
  table->set_attention_heads(4);
  table->set_query_groups(2);
  table->set_sequence_length(128);
  table->set_precision(v1::PRECISION_BF16);
  table->add_tensor_parallel(2);
  table->add_micro_batch(4);
  table->add_forward_microseconds(2e6);
  table->add_backward_microseconds(3e6);
  Violations violations;
  const profile::AcceleratorProfile read = ProfileFromWire(wire, violations);
  EXPECT_THAT(Rules(violations), ElementsAre());
  ASSERT_EQ(read.layers.size(), 1U);
  EXPECT_EQ(read.layers[0].shape().query_groups, 2);
  EXPECT_DOUBLE_EQ(read.layers[0].At(2, 4).value().forward_seconds, 2);
  EXPECT_DOUBLE_EQ(read.layers[0].At(2, 4).value().backward_seconds, 3);

  table->add_micro_batch(8);
  violations.clear();
  ProfileFromWire(wire, violations);
  EXPECT_THAT(Rules(violations), ElementsAre("table_columns_equal"));
}

// Whatever the columns hold, loading ends in a profile or in faults, and a profile without faults
// answers with times.
TEST(ProfileTables, AnyColumnsAreRefusedOrGiveTimes) {
  const std::vector<double> values = {0,     1,    -1,  0.5,      128,      1e-300,
                                      1e300, 1e12, NAN, INFINITY, -INFINITY};
  const std::vector<int64_t> sizes = {0,
                                      1,
                                      -1,
                                      128,
                                      4096,
                                      std::numeric_limits<int64_t>::max(),
                                      std::numeric_limits<int64_t>::min()};
  std::mt19937 random(11);
  const auto pick = [&random](const auto& of) { return of[random() % of.size()]; };
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    v1::AcceleratorProfile wire = RoundProfile("Unit-1");
    v1::OperationTable* table = AddTable(wire, 2);
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const int at = static_cast<int>(random() % 2);
      switch (random() % 11) {
        case 0:
          table->set_m(at, pick(sizes));
          break;
        case 1:
          table->set_n(at, pick(sizes));
          break;
        case 2:
          table->set_k(at, pick(sizes));
          break;
        case 3:
          table->set_groups(at, pick(sizes));
          break;
        case 4:
          table->set_microseconds(at, pick(values));
          break;
        case 5:
          table->set_peak_ratio(pick(values));
          break;
        case 6:
          table->set_quantised_ratio(pick(values));
          break;
        case 7:
          table->set_depth_half(pick(values));
          break;
        case 8:
          table->set_fixed_seconds(pick(values));
          break;
        case 9:
          table->set_traffic_ratio(pick(values));
          break;
        default:
          table->set_sustained_ratio(pick(values));
          break;
      }
    }
    Violations violations;
    const profile::AcceleratorProfile profile = ProfileFromWire(wire, violations);
    if (!violations.empty()) continue;
    ++accepted;
    const auto answer =
        profile.tables[0].Seconds(profile::TableKind::kGemm, {256, 512, 1024},
                                  *profile.ChipFor(profile::MatrixPrecision::kBf16), 0);
    EXPECT_TRUE(std::isfinite(answer.seconds) && answer.seconds > 0) << table->DebugString();
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 2500);
}

}  // namespace
}  // namespace hapmoe::server
