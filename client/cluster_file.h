// The cluster file: YAML or JSON to the Cluster message, strictly.
//
//   pools:
//     - {name: fast, accelerator: H800-SXM, nodes: 4, accelerators_per_node: 8}
//     - name: slow
//       accelerator: A100-SXM-80GB
//       hosts: [a01, a02]
//       network: {bytes_per_second: 25e9, latency_seconds: 5e-6}
//       price_per_accelerator_hour: 1.8
//   links:
//     - {between: [fast, slow], bytes_per_second: 12.5e9}
#ifndef HAPMOE_CLIENT_CLUSTER_FILE_H_
#define HAPMOE_CLIENT_CLUSTER_FILE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "client/yaml_tree.h"
#include "hapmoe/v1/cluster.pb.h"

namespace hapmoe::client {

// Reads the text of a cluster file. Returns every fault found, in order of lines, at most 20; none
// means that `cluster` is filled. Checked here is what the message cannot hold or would take
// for something else (unknown and repeated keys, types, numbers that are left out when 0); what a
// cluster must be beyond that, the server says.
std::vector<TextFault> ParseCluster(absl::string_view text, v1::Cluster& cluster);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CLUSTER_FILE_H_
