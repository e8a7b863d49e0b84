// The scheduler file: YAML or JSON to the LaunchOptions message, strictly.
//
//   image: registry.example/megatron:1
//   volumes:
//     - {name: data, mount_path: /data, claim: corpus, read_only: true}
//   accelerators:
//     - accelerator: H800
//       node_selector: {pool: h800}
//       resources: {rdma/hca: 8}
#ifndef HAPMOE_CLIENT_SCHEDULER_FILE_H_
#define HAPMOE_CLIENT_SCHEDULER_FILE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "client/yaml_tree.h"
#include "hapmoe/v1/launch.pb.h"

namespace hapmoe::client {

// Reads the text of a scheduler file. Fields are those of LaunchOptions, by name. Returns every
// fault found, in order of lines, at most 20; none means that `options` is filled. What the values
// must be beyond their types, the server says.
std::vector<TextFault> ParseSchedulerFile(absl::string_view text, v1::LaunchOptions& options);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCHEDULER_FILE_H_
