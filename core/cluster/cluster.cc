#include "core/cluster/cluster.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hapmoe::cluster {
namespace {

// Larger than any cluster that trains one model, small enough that no product of them overflows.
constexpr size_t kMaxPools = 64;
constexpr int64_t kMaxNodes = 65536;
constexpr int64_t kMaxAcceleratorsPerNode = 1024;
constexpr int64_t kMaxAccelerators = 1 << 20;
constexpr size_t kMaxNameBytes = 64;
// Beyond any network; what lies outside is a slip of units, and would make times that mean nothing.
constexpr double kMinBytesPerSecond = 1e3;
constexpr double kMaxBytesPerSecond = 1e18;
constexpr double kMaxHostMemoryBytes = 1e15;
constexpr double kMaxLatencySeconds = 60;
// A price must divide what it buys; the range holds any currency.
constexpr double kMinPrice = 1e-6;
constexpr double kMaxPrice = 1e9;
constexpr size_t kMaxHostBytes = 253;  // RFC 1035, section 2.3.4.

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// Host names and addresses; nothing that a shell or a host file could read as something else.
bool IsHost(absl::string_view host) {
  if (host.empty() || host.size() > kMaxHostBytes || host.front() == '-') return false;
  for (const char c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        absl::string_view(".-_:").find(c) == absl::string_view::npos) {
      return false;
    }
  }
  return true;
}

// Collects the faults of one cluster.
class Checker {
 public:
  void Add(absl::string_view rule, std::string field, std::string message) {
    violations_.push_back({std::string(rule), std::move(field), std::move(message)});
  }

  void CheckNetwork(const Network& network, const std::string& field) {
    CheckFigure(network.bytes_per_second, field + ".bytes_per_second", /*zero_allowed=*/false);
    CheckFigure(network.latency_seconds, field + ".latency_seconds", /*zero_allowed=*/true);
  }

  void CheckPool(const Pool& pool, const std::string& field) {
    if (!IsName(pool.name)) {
      Add("pool_name_valid", field + ".name",
          absl::StrCat("A pool's name has 1 to ", kMaxNameBytes,
                       " printable characters; this one has ", pool.name.size(), " bytes."));
    } else if (!names_.insert(pool.name).second) {
      Add("pool_name_unique", field + ".name",
          absl::StrCat("Two pools are named \"", pool.name, "\"."));
    }
    if (!IsName(pool.accelerator)) {
      Add("pool_accelerator_given", field + ".accelerator",
          absl::StrCat("The accelerator type has 1 to ", kMaxNameBytes,
                       " printable characters; this one has ", pool.accelerator.size(), " bytes."));
    }
    if (pool.nodes < 1 || pool.nodes > kMaxNodes) {
      Add("pool_nodes_in_range", field + ".nodes",
          absl::StrCat("A pool has 1 to ", kMaxNodes, " nodes, not ", pool.nodes, "."));
    }
    if (pool.accelerators_per_node < 1 || pool.accelerators_per_node > kMaxAcceleratorsPerNode) {
      Add("pool_accelerators_per_node_in_range", field + ".accelerators_per_node",
          absl::StrCat("A node has 1 to ", kMaxAcceleratorsPerNode, " accelerators, not ",
                       pool.accelerators_per_node, "."));
    }
    CheckDevices(pool, field);
    CheckHosts(pool, field);
    CheckNetwork(pool.network, field + ".network");
    const double host_bytes = pool.host_memory_bytes.value_or(kMaxHostMemoryBytes);
    if (!(host_bytes >= 0 && host_bytes <= kMaxHostMemoryBytes)) {
      Add("pool_host_memory_in_range", field + ".host_memory_bytes",
          absl::StrCat("Must be from 0 to ", kMaxHostMemoryBytes, " bytes, not ", host_bytes, "."));
    }
    const double price = pool.price_per_accelerator_hour.value_or(kMinPrice);
    if (!(price >= kMinPrice && price <= kMaxPrice)) {
      Add("pool_price_in_range", field + ".price_per_accelerator_hour",
          absl::StrCat("Must be from ", kMinPrice, " to ", kMaxPrice, ", not ", price, "."));
    }
  }

  void CheckLink(const Link& link, int64_t pools, const std::string& field) {
    for (const int64_t pool : {link.first_pool, link.second_pool}) {
      if (pool < 0 || pool >= pools) {
        Add("link_pools_known", field + ".between",
            absl::StrCat("A link joins pools 0 to ", pools - 1, ", not ", pool, "."));
        return;
      }
    }
    if (link.first_pool == link.second_pool) {
      Add("link_joins_two_pools", field + ".between",
          "A link joins two different pools; the network inside a pool is the pool's own.");
    } else if (!links_.insert(std::minmax(link.first_pool, link.second_pool)).second) {
      Add("link_unique", field + ".between", "The link between these two pools is listed twice.");
    }
    CheckNetwork(link.network, field);
  }

  Violations Take() { return std::move(violations_); }

 private:
  void CheckFigure(const std::optional<double>& value, std::string field, bool zero_allowed) {
    if (!value.has_value()) return;
    if (zero_allowed ? *value >= 0 && *value <= kMaxLatencySeconds
                     : *value >= kMinBytesPerSecond && *value <= kMaxBytesPerSecond) {
      return;
    }
    Add("network_figure_in_range", std::move(field),
        zero_allowed
            ? absl::StrCat("Must be from 0 to ", kMaxLatencySeconds, " seconds, not ", *value, ".")
            : absl::StrCat("Must be from ", kMinBytesPerSecond, " to ", kMaxBytesPerSecond,
                           " bytes per second, not ", *value, "."));
  }

  void CheckDevices(const Pool& pool, const std::string& field) {
    if (pool.devices.empty()) return;
    if (static_cast<int64_t>(pool.devices.size()) != pool.accelerators_per_node) {
      Add("devices_match_accelerators", field + ".devices",
          absl::StrCat("There are ", pool.devices.size(), " device indices for ",
                       pool.accelerators_per_node, " accelerators of a node."));
    }
    std::set<int64_t> seen;
    for (const int64_t device : pool.devices) {
      if (device >= 0 && device < kMaxAcceleratorsPerNode && seen.insert(device).second) continue;
      Add("device_index_valid", field + ".devices",
          absl::StrCat("A device index is from 0 to ", kMaxAcceleratorsPerNode - 1,
                       " and listed once; ", device, " is not."));
      return;
    }
  }

  // A host is listed once, or in several pools that all say which of its devices are theirs.
  bool IsNewHost(const Pool& pool, const std::string& host) {
    const auto [known, added] = hosts_.emplace(absl::AsciiStrToLower(host), &pool);
    return added ||
           (known->second != &pool && !known->second->devices.empty() && !pool.devices.empty());
  }

  void CheckHosts(const Pool& pool, const std::string& field) {
    if (pool.hosts.empty()) return;
    if (static_cast<int64_t>(pool.hosts.size()) != pool.nodes) {
      Add("hosts_match_nodes", field + ".hosts",
          absl::StrCat("There are ", pool.hosts.size(), " host names for ", pool.nodes, " nodes."));
    }
    for (size_t i = 0; i < pool.hosts.size(); ++i) {
      const std::string& host = pool.hosts[i];
      if (!IsHost(host)) {
        Add("host_name_valid", absl::StrCat(field, ".hosts[", i, "]"),
            absl::StrCat("A host name has 1 to ", kMaxHostBytes,
                         " letters, digits, dots, dashes, underscores and colons."));
      } else if (!IsNewHost(pool, host)) {
        Add("host_unique", absl::StrCat(field, ".hosts[", i, "]"),
            absl::StrCat("Host \"", host,
                         "\" is listed twice; only pools that all give their "
                         "devices may share one."));
      }
    }
  }

  std::set<std::string> names_;
  std::map<std::string, const Pool*> hosts_;  // And the first pool of each.
  std::set<std::pair<int64_t, int64_t>> links_;
  Violations violations_;
};

}  // namespace

Violations Validate(const Cluster& cluster) {
  Checker checker;
  if (cluster.pools.empty() || cluster.pools.size() > kMaxPools) {
    checker.Add(
        "cluster_pools_in_range", "cluster.pools",
        absl::StrCat("A cluster has 1 to ", kMaxPools, " pools, not ", cluster.pools.size(), "."));
    return checker.Take();
  }
  for (size_t i = 0; i < cluster.pools.size(); ++i) {
    checker.CheckPool(cluster.pools[i], absl::StrCat("cluster.pools[", i, "]"));
  }
  const auto pools = static_cast<int64_t>(cluster.pools.size());
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    checker.CheckLink(cluster.links[i], pools, absl::StrCat("cluster.links[", i, "]"));
  }
  Violations violations = checker.Take();
  if (violations.empty() && cluster.accelerators() > kMaxAccelerators) {
    violations.push_back({"cluster_accelerators_in_range", "cluster.pools",
                          absl::StrCat("A cluster has at most ", kMaxAccelerators,
                                       " accelerators, not ", cluster.accelerators(), ".")});
  }
  return violations;
}

}  // namespace hapmoe::cluster
