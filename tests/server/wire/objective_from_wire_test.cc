#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/wire/from_wire.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kind = search::Objective::Kind;
using Sizes = google::protobuf::RepeatedPtrField<v1::PoolSizes>;

std::vector<std::pair<std::string, std::string>> RulesAndFields(const Violations& violations) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Violation& violation : violations) pairs.emplace_back(violation.rule, violation.field);
  return pairs;
}

TEST(ObjectiveFromWire, IsTimeWhereNothingIsSaid) {
  Violations violations;
  const search::Objective objective = ObjectiveFromWire({}, violations);
  EXPECT_EQ(objective.kind, Kind::kTime);
  EXPECT_EQ(objective.deadline_seconds, std::nullopt);
  EXPECT_THAT(violations, IsEmpty());
}

TEST(ObjectiveFromWire, KeepsKindAndLimits) {
  v1::Objective wire;
  wire.set_kind(v1::Objective::KIND_FEWEST);
  wire.set_deadline_seconds(2.5);
  wire.set_tokens_per_second(1e5);
  Violations violations;
  const search::Objective objective = ObjectiveFromWire(wire, violations);
  EXPECT_EQ(objective.kind, Kind::kFewest);
  EXPECT_EQ(objective.deadline_seconds, 2.5);
  EXPECT_EQ(objective.tokens_per_second, 1e5);
  wire.Clear();
  wire.set_kind(v1::Objective::KIND_PRICE);
  EXPECT_EQ(ObjectiveFromWire(wire, violations).kind, Kind::kPrice);
  EXPECT_THAT(violations, IsEmpty());
}

TEST(ObjectiveFromWire, FaultsAreNamed) {
  v1::Objective wire;
  Violations violations;
  wire.set_deadline_seconds(1);
  ObjectiveFromWire(wire, violations);  // Of time.
  wire.Clear();
  wire.set_kind(v1::Objective::KIND_FEWEST);
  ObjectiveFromWire(wire, violations);  // Without a limit.
  wire.set_deadline_seconds(0);
  wire.set_tokens_per_second(std::numeric_limits<double>::quiet_NaN());
  ObjectiveFromWire(wire, violations);
  wire.Clear();
  wire.set_kind(static_cast<v1::Objective::Kind>(9));
  ObjectiveFromWire(wire, violations);
  EXPECT_THAT(RulesAndFields(violations),
              ElementsAre(std::pair("objective_takes_limits", "objective.kind"),
                          std::pair("objective_limit_given", "objective"),
                          std::pair("objective_limit_in_range", "objective.deadline_seconds"),
                          std::pair("objective_limit_in_range", "objective.tokens_per_second"),
                          std::pair("objective_kind_known", "objective.kind")));
}

// "pool" of 6 nodes and "other" of 3.
cluster::Cluster TwoPools() {
  v1::Cluster wire = ClusterOf("H800", 6);
  *wire.add_pools() = ClusterOf("A100", 3).pools(0);
  wire.mutable_pools(1)->set_name("other");
  Violations violations;
  return ClusterFromWire(wire, violations);
}

void Add(const std::string& pool, const std::vector<uint32_t>& nodes, Sizes& sizes) {
  v1::PoolSizes* to = sizes.Add();
  to->set_pool(pool);
  *to->mutable_nodes() = {nodes.begin(), nodes.end()};
}

TEST(SizesFromWire, AreDoubledForPoolsThatAreNotListed) {
  Sizes wire;
  Add("other", {3, 0, 3}, wire);
  Violations violations;
  EXPECT_THAT(SizesFromWire(wire, TwoPools(), violations),
              ElementsAre(ElementsAre(0, 1, 2, 4, 6), ElementsAre(0, 3)));
  EXPECT_THAT(violations, IsEmpty());
}

TEST(SizesFromWire, FaultsAreNamed) {
  Sizes wire;
  Add("nowhere", {1}, wire);
  Add("pool", {1, 7}, wire);
  Add("pool", {1}, wire);
  Add("other", {}, wire);
  Violations violations;
  SizesFromWire(wire, TwoPools(), violations);
  EXPECT_THAT(RulesAndFields(violations),
              ElementsAre(std::pair("frontier_pool_known", "sizes[0].pool"),
                          std::pair("frontier_nodes_in_pool", "sizes[1].nodes[1]"),
                          std::pair("frontier_pool_unique", "sizes[2].pool"),
                          std::pair("frontier_sizes_in_range", "sizes[3].nodes")));
}

TEST(SizesFromWire, RefusesNoAllocationAndTooMany) {
  Sizes none;
  Add("pool", {0}, none);
  Add("other", {0}, none);
  Violations violations;
  SizesFromWire(none, TwoPools(), violations);
  cluster::Cluster many;
  for (int i = 0; i < 9; ++i) {
    cluster::Pool& pool = many.pools.emplace_back();
    pool.name = std::string(1, static_cast<char>('a' + i));
    pool.nodes = 1;
  }
  SizesFromWire({}, many, violations);  // 2^9 - 1 = 511.
  EXPECT_THAT(RulesAndFields(violations),
              ElementsAre(std::pair("frontier_allocations_in_range", "sizes"),
                          std::pair("frontier_allocations_in_range", "sizes")));
  many.pools.pop_back();  // 255.
  violations.clear();
  SizesFromWire({}, many, violations);
  EXPECT_THAT(violations, IsEmpty());
}

TEST(SizesFromWire, RefusesTooManyBeforeReadingThem) {
  Sizes wire;
  for (int i = 0; i < 100'000; ++i) Add("nowhere", {1}, wire);
  Violations violations;
  SizesFromWire(wire, TwoPools(), violations);
  EXPECT_THAT(RulesAndFields(violations),
              ElementsAre(std::pair("frontier_pools_in_range", "sizes")));
}

}  // namespace
}  // namespace hapmoe::server
