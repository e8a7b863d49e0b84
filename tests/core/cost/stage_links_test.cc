// Over how many nodes the groups of a stage are spread.
#include "core/cost/stage_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/plan/node_assignment.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {

void PrintTo(const GroupSplit& split, std::ostream* out) {
  *out << split.ranks << " ranks in " << split.domains << " domains, " << split.fewest << " to "
       << split.most << ", " << split.crossing << " x " << split.crossing_pairs << " crossing";
}

namespace {

using hapmoe::testing::SmallPool;
using hapmoe::testing::TestFabric;
using model::Group;

TEST(PlacementTest, FollowsTheRankOrder) {
  const plan::Degrees degrees{.tp = 2, .cp = 2, .dp = 8, .ep = 4, .etp = 2};
  EXPECT_EQ(PlacementOf(Group::kTensor, degrees).stride, 1);
  EXPECT_EQ(PlacementOf(Group::kContext, degrees).stride, 2);
  EXPECT_EQ(DenseSyncPlacement(degrees).size, 16);
  EXPECT_EQ(DenseSyncPlacement(degrees).stride, 2);
  EXPECT_EQ(PlacementOf(Group::kExpert, degrees).stride, 2);
  EXPECT_EQ(PlacementOf(Group::kDispatch, degrees).size, 8);
  EXPECT_EQ(ExpertSyncPlacement(degrees).size, 4);  // 32 / (4 x 2)
  EXPECT_EQ(ExpertSyncPlacement(degrees).stride, 8);
}

struct Case {
  std::string name;
  plan::Degrees degrees;
  StagePlace place;
  GroupSplit tensor;
  GroupSplit sync;
  int64_t island = 0;  // Where domains have islands.
  bool crosses_nodes = false;
};

class SplitTest : public ::testing::TestWithParam<Case> {};

TEST_P(SplitTest, IsThatOfTheWorstGroup) {
  Fabric fabric = TestFabric();
  fabric.crosses_nodes = GetParam().crosses_nodes;
  if (GetParam().island > 0) fabric.bridge = profile::Bridge{.island = GetParam().island};
  const StageLinks links(fabric, GetParam().degrees, GetParam().place);
  EXPECT_EQ(links.Of(Group::kTensor), GetParam().tensor);
  EXPECT_EQ(links.dense_sync(), GetParam().sync);
}

INSTANTIATE_TEST_SUITE_P(
    Stages, SplitTest,
    ::testing::Values(
        // Ranks, domains, fewest and most in one.
        Case{"OneNode", {.tp = 4, .dp = 2}, {}, {4, 1, 4, 4}, {2, 1, 2, 2}},
        Case{"TwoNodes", {.tp = 8, .dp = 2}, {}, {8, 1, 8, 8}, {2, 2, 1, 1}},
        Case{"HalfANode", {.tp = 2, .dp = 2}, {.behind = 4}, {2, 1, 2, 2}, {2, 1, 2, 2}},
        // 4 to 11: four on each node.
        Case{"ANodeOfTwoHalves", {.tp = 4, .dp = 2}, {.behind = 4}, {4, 1, 4, 4}, {2, 2, 1, 1}},
        Case{"ATensorOfTwoHalves", {.tp = 8}, {.behind = 4}, {8, 2, 4, 4}, {1, 1, 1, 1}},
        // 6 to 11: two on one node and four on the next. The first group of three has two and one.
        Case{"SixOfEight", {.tp = 6}, {.behind = 6}, {6, 2, 2, 4}, {1, 1, 1, 1}},
        Case{"TwiceThree", {.tp = 3, .dp = 2}, {.behind = 6}, {3, 2, 1, 3}, {2, 2, 1, 2}},
        Case{"ThriceTwo", {.tp = 2, .dp = 3}, {.behind = 6}, {2, 1, 2, 2}, {3, 2, 1, 2}},
        // 0 to 11, in which the second group of six crosses.
        Case{"TwiceSixFromTheStart", {.tp = 6, .dp = 2}, {}, {6, 2, 2, 6}, {2, 2, 1, 2}},
        Case{"TwelveReplicas", {.dp = 12}, {}, {1, 1, 1, 1}, {12, 2, 4, 8}},
        Case{"DomainsOfManyNodes",
             {.tp = 6, .dp = 2},
             {.behind = 6},
             {6, 1, 6, 6},
             {2, 2, 1, 1},
             0,
             true},
        // Each of four pairs crosses with one on either side.
        Case{"Islands", {.tp = 4, .dp = 2}, {}, {4, 1, 4, 4}, {2, 1, 2, 2, 4, 1}, 4},
        // 2 to 5: two on each island, of one group.
        Case{"AcrossIslands", {.tp = 4}, {.behind = 2}, {4, 1, 4, 4, 1, 4}, {1, 1, 1, 1}, 4},
        // 3 to 5 is the only group of three on two islands.
        Case{"OneOfTwoCrosses", {.tp = 3, .dp = 2}, {}, {3, 1, 3, 3, 1, 2}, {2, 1, 2, 2, 2, 1}, 4},
        // Nine: all of a node, whose ring crosses, and one on the next.
        Case{"AStraggler", {.dp = 9}, {}, {1, 1, 1, 1}, {9, 2, 1, 8, 1, 16}, 4},
        // Islands of 3, 3 and 2: 6 to 8 are two of the last, and the next node's first.
        Case{"IslandsBeginWithTheirNode", {.tp = 3}, {.behind = 6}, {3, 2, 1, 2}, {1, 1, 1, 1}, 3},
        // Runs of 2, 8 apart: each on a node of its own.
        Case{"Alternating",
             {.tp = 2, .dp = 3},
             {.behind = 2, .run = 2, .stride = 8},
             {2, 1, 2, 2},
             {3, 3, 1, 1}},
        // Runs of 2, 6 apart: 0, 6, 12, 18: two of them on the first node.
        Case{"AlternatingUnevenly",
             {.tp = 2, .dp = 4},
             {.behind = 0, .run = 2, .stride = 6},
             {2, 1, 2, 2},
             {4, 3, 1, 2}}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

// The nodes of the ranks [group][member], by the assignment that launchers start.
GroupSplit SplitOnNodes(const std::vector<std::vector<int64_t>>& groups) {
  const auto ranks = static_cast<int64_t>(groups.front().size());
  GroupSplit worst = {.ranks = ranks, .domains = 0, .fewest = ranks, .most = 0};
  for (const std::vector<int64_t>& group : groups) {
    std::map<int64_t, int64_t> members;
    for (const int64_t node : group) ++members[node];
    worst.domains = std::max(worst.domains, static_cast<int64_t>(members.size()));
    for (const auto& [node, count] : members) {
      worst.fewest = std::min(worst.fewest, count);
      worst.most = std::max(worst.most, count);
    }
  }
  return worst;
}

// Stages of one pool or two, of any sizes, in either order of ranks.
plan::Plan RandomPlan(std::mt19937& random) {
  const auto draw = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  plan::Plan plan;
  if (random() % 4 == 0) plan.rank_order = plan::RankOrder::kDataOutermost;
  const bool one_mesh = plan.rank_order == plan::RankOrder::kDataOutermost;
  for (int64_t mesh = one_mesh ? 1 : draw({1, 2, 3}); mesh > 0; --mesh) {
    plan::Mesh one;
    one.pool = one_mesh ? 0 : draw({0, 1});
    one.degrees = {.tp = draw({1, 2, 3, 4}), .cp = draw({1, 2}), .dp = draw({1, 2, 3, 4})};
    one.degrees.etp = draw({1, one.degrees.tp});
    const int64_t left = one.degrees.stage_ranks() / one.degrees.etp;
    do {
      one.degrees.ep = draw({1, 2, 3, 4, 6});
    } while (left % one.degrees.ep != 0);
    one.stages.resize(static_cast<size_t>(draw({1, 2, 3})), plan::Stage{{plan::Chunk{}}, {}});
    if (one_mesh && one.stages.size() > 1) {
      // What the engine asks for where ranks of a stage are apart.
      one.degrees.etp = one.degrees.tp;
      one.degrees.ep = one.degrees.cp;
    }
    plan.meshes.push_back(std::move(one));
  }
  return plan;
}

TEST(StageLinksTest, AgreeWithTheNodesThatRanksAreStartedOn) {
  std::mt19937 random(7);
  int uneven = 0;
  for (int i = 0; i < 3000; ++i) {
    const plan::Plan plan = RandomPlan(random);
    const int64_t node = std::vector<int64_t>{4, 6, 8}[random() % 3];
    cluster::Cluster cluster;
    cluster.pools = {SmallPool("a", 100, node), SmallPool("b", 100, node)};
    const auto assigned = plan::AssignNodes(plan, cluster);
    ASSERT_TRUE(assigned.ok()) << assigned.status();
    std::vector<std::vector<int64_t>> nodes(static_cast<size_t>(plan.pipeline_stages()));
    for (const plan::AssignedNode& one : assigned->nodes) {
      for (int64_t k = 0; k < one.processes; ++k) {
        nodes[static_cast<size_t>(plan::StageOfRank(plan, one.first_rank + k))].push_back(
            one.node_rank);
      }
    }
    const std::vector<StagePlace> places = PlacesOf(plan, cluster);
    Fabric fabric = TestFabric();
    fabric.domain = node;
    size_t stage = 0;
    for (const plan::Mesh& mesh : plan.meshes) {
      for (size_t k = 0; k < mesh.stages.size(); ++k, ++stage) {
        const StageLinks links(fabric, mesh.degrees, places[stage]);
        const auto expect = [&](const GroupPlacement& group, const GroupSplit& split) {
          std::vector<std::vector<int64_t>> groups;
          const int64_t span = group.size * group.stride;
          for (int64_t first = 0; first < mesh.degrees.stage_ranks(); first += span) {
            for (int64_t offset = 0; offset < group.stride; ++offset) {
              groups.emplace_back();
              for (int64_t member = 0; member < group.size; ++member) {
                groups.back().push_back(
                    nodes[stage][static_cast<size_t>(first + offset + member * group.stride)]);
              }
            }
          }
          EXPECT_EQ(split, SplitOnNodes(groups)) << "plan " << i << ", stage " << stage;
          uneven += split == SplitOf(group, fabric) ? 0 : 1;
        };
        for (size_t group = 0; group < model::kGroups; ++group) {
          expect(PlacementOf(static_cast<Group>(group), mesh.degrees),
                 links.Of(static_cast<Group>(group)));
        }
        expect(DenseSyncPlacement(mesh.degrees), links.dense_sync());
        expect(ExpertSyncPlacement(mesh.degrees), links.expert_sync());
      }
    }
  }
  EXPECT_GT(uneven, 1000);
}

// What is read off the degrees of an even stage is what counting its members gives.
TEST(StageLinksTest, CountsEvenGroupsAsTheFormulaHasThem) {
  Fabric fabric = TestFabric();
  for (const int64_t island : {2, 4, 8}) {
    fabric.bridge = profile::Bridge{.island = island};
    for (const int64_t tp : {1, 2, 4, 8}) {
      for (const int64_t dp : {8, 16}) {
        const plan::Degrees degrees = {.tp = tp, .dp = dp};
        // Runs as long as the stage are no runs, but counted.
        const StageLinks even(fabric, degrees, {.behind = 16});
        const StageLinks counted(
            fabric, degrees,
            {.behind = 16, .run = degrees.stage_ranks(), .stride = degrees.stage_ranks()});
        EXPECT_TRUE(even.SplitsLike(counted)) << island << ", " << tp << " x " << dp;
      }
    }
  }
}

}  // namespace
}  // namespace hapmoe::cost
