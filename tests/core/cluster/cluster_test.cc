#include "core/cluster/cluster.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two pools and a link between them, without a fault.
Cluster ValidCluster() {
  Cluster cluster;
  cluster.pools.resize(2);
  cluster.pools[0].name = "fast";
  cluster.pools[0].accelerator = "H800";
  cluster.pools[0].nodes = 4;
  cluster.pools[1].name = "slow";
  cluster.pools[1].accelerator = "A100";
  cluster.pools[1].nodes = 2;
  cluster.pools[1].hosts = {"node-4", "node-5"};
  cluster.links.resize(1);
  cluster.links[0].second_pool = 1;
  cluster.links[0].network.bytes_per_second = 25e9;
  return cluster;
}

TEST(ClusterValidate, AcceptsAValidCluster) {
  EXPECT_THAT(Validate(ValidCluster()), IsEmpty());
  EXPECT_EQ(ValidCluster().accelerators(), 48);  // 4 x 8 + 2 x 8
}

struct Fault {
  std::string name;
  std::function<void(Cluster&)> plant;
  std::string rule;
  std::string field;
};

class ClusterFaults : public testing::TestWithParam<Fault> {};

TEST_P(ClusterFaults, IsReportedOnceWithItsField) {
  Cluster cluster = ValidCluster();
  GetParam().plant(cluster);
  const Violations violations = Validate(cluster);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].rule, GetParam().rule);
  EXPECT_EQ(violations[0].field, GetParam().field);
  EXPECT_FALSE(violations[0].message.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, ClusterFaults,
    testing::Values(
        Fault{"NoPools", [](Cluster& c) { c = {}; }, "cluster_pools_in_range", "cluster.pools"},
        Fault{"TooManyPools", [](Cluster& c) { c.pools.resize(65); }, "cluster_pools_in_range",
              "cluster.pools"},
        Fault{"EmptyName", [](Cluster& c) { c.pools[0].name = ""; }, "pool_name_valid",
              "cluster.pools[0].name"},
        Fault{"ControlCharacterInName", [](Cluster& c) { c.pools[0].name = "a\nb"; },
              "pool_name_valid", "cluster.pools[0].name"},
        Fault{"NameTwice", [](Cluster& c) { c.pools[1].name = "fast"; }, "pool_name_unique",
              "cluster.pools[1].name"},
        Fault{"NoAccelerator", [](Cluster& c) { c.pools[1].accelerator = ""; },
              "pool_accelerator_given", "cluster.pools[1].accelerator"},
        Fault{"NoNodes", [](Cluster& c) { c.pools[0].nodes = 0; }, "pool_nodes_in_range",
              "cluster.pools[0].nodes"},
        Fault{"NodesBeyondRange", [](Cluster& c) { c.pools[0].nodes = int64_t{1} << 62; },
              "pool_nodes_in_range", "cluster.pools[0].nodes"},
        Fault{"NoAcceleratorsPerNode", [](Cluster& c) { c.pools[0].accelerators_per_node = -8; },
              "pool_accelerators_per_node_in_range", "cluster.pools[0].accelerators_per_node"},
        Fault{"TooManyAccelerators",
              [](Cluster& c) {
                c.pools[0].nodes = 65536;
                c.pools[0].accelerators_per_node = 1024;
              },
              "cluster_accelerators_in_range", "cluster.pools"},
        Fault{"HostMissing", [](Cluster& c) { c.pools[1].hosts.pop_back(); }, "hosts_match_nodes",
              "cluster.pools[1].hosts"},
        Fault{"HostTwiceIgnoringCase", [](Cluster& c) { c.pools[1].hosts[1] = "NODE-4"; },
              "host_unique", "cluster.pools[1].hosts[1]"},
        Fault{"DevicesMissing",
              [](Cluster& c) {
                c.pools[1].devices = {0, 1};
              },
              "devices_match_accelerators", "cluster.pools[1].devices"},
        Fault{"DeviceTwice", [](Cluster& c) { c.pools[1].devices = {0, 1, 2, 3, 4, 5, 6, 6}; },
              "device_index_valid", "cluster.pools[1].devices"},
        Fault{"HostInTwoPoolsOneWithoutDevices",
              [](Cluster& c) {
                c.pools[1].devices = {0, 1, 2, 3, 4, 5, 6, 7};
                c.pools[0].hosts.assign(static_cast<size_t>(c.pools[0].nodes), "x");
                for (size_t i = 0; i < c.pools[0].hosts.size(); ++i) {
                  c.pools[0].hosts[i] = i == 0 ? "node-4" : "other-" + std::to_string(i);
                }
              },
              "host_unique", "cluster.pools[1].hosts[0]"},
        Fault{"HostWithShellCharacters", [](Cluster& c) { c.pools[1].hosts[0] = "a;reboot"; },
              "host_name_valid", "cluster.pools[1].hosts[0]"},
        Fault{"HostLikeAnOption", [](Cluster& c) { c.pools[1].hosts[0] = "-oProxyCommand"; },
              "host_name_valid", "cluster.pools[1].hosts[0]"},
        Fault{"InfiniteBandwidth",
              [](Cluster& c) {
                c.pools[0].network.bytes_per_second = std::numeric_limits<double>::infinity();
              },
              "network_figure_in_range", "cluster.pools[0].network.bytes_per_second"},
        Fault{"BandwidthInTheWrongUnit",
              [](Cluster& c) { c.links[0].network.bytes_per_second = 1e-300; },
              "network_figure_in_range", "cluster.links[0].bytes_per_second"},
        Fault{"NegativeHostMemory", [](Cluster& c) { c.pools[0].host_memory_bytes = -1; },
              "pool_host_memory_in_range", "cluster.pools[0].host_memory_bytes"},
        Fault{"PriceOfNothing", [](Cluster& c) { c.pools[0].price_per_accelerator_hour = 0; },
              "pool_price_in_range", "cluster.pools[0].price_per_accelerator_hour"},
        Fault{"PriceThatIsNoNumber",
              [](Cluster& c) { c.pools[1].price_per_accelerator_hour = NAN; },
              "pool_price_in_range", "cluster.pools[1].price_per_accelerator_hour"},
        Fault{"NegativeLatency", [](Cluster& c) { c.links[0].network.latency_seconds = -1e-6; },
              "network_figure_in_range", "cluster.links[0].latency_seconds"},
        Fault{"LinkToUnknownPool", [](Cluster& c) { c.links[0].second_pool = 2; },
              "link_pools_known", "cluster.links[0].between"},
        Fault{"LinkInsideAPool", [](Cluster& c) { c.links[0].second_pool = 0; },
              "link_joins_two_pools", "cluster.links[0].between"},
        Fault{"LinkTwiceInEitherDirection",
              [](Cluster& c) {
                c.links.emplace_back();
                c.links[1].first_pool = 1;
              },
              "link_unique", "cluster.links[1].between"}),
    [](const auto& fault) { return fault.param.name; });

TEST(ClusterValidate, ReportsAllFaultsAtOnce) {
  Cluster cluster = ValidCluster();
  cluster.pools[0].nodes = -1;
  cluster.pools[1].accelerator = "";
  EXPECT_THAT(Validate(cluster),
              ElementsAre(testing::Field(&Violation::message, HasSubstr("not -1")),
                          testing::Field(&Violation::rule, "pool_accelerator_given")));
}

}  // namespace
}  // namespace hapmoe::cluster
