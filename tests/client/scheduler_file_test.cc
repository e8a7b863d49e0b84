#include "client/scheduler_file.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Lines(const std::vector<TextFault>& faults) {
  std::vector<std::string> lines;
  for (const TextFault& fault : faults) lines.push_back(absl::StrCat(fault.line, ": ", fault.what));
  return lines;
}

void ExpectOptions(const std::string& file, const std::string& expected) {
  v1::LaunchOptions options, wanted;
  EXPECT_THAT(Lines(ParseSchedulerFile(file, options)), IsEmpty());
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &wanted));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(options, wanted))
      << options.DebugString();
}

TEST(SchedulerFileTest, ReadsFieldsOfEveryType) {
  ExpectOptions(
      R"(
scheduler: jobset
name: "true"
master_port: 29500
max_restarts: 0
host_network: true
environment: {NCCL_DEBUG: INFO, LEVEL: 3, EMPTY: ""}
capabilities: [IPC_LOCK, "SYS_RESOURCE"]
volumes:
  - {name: data, mount_path: /data, claim: corpus, read_only: true}
  - name: nvme
    host_path: /nvme
accelerators:
  - accelerator: H800
    node_selector: {nvidia.com/gpu.product: NVIDIA-H800}
    tolerations: [{key: gpu, operator: Exists}]
    resources: {rdma/hca: 8, memory: 900Gi}
slurm: {account: llm, time_limit: "2-00:00:00"}
)",
      R"pb(
        scheduler: "jobset"
        name: "true"
        master_port: 29500
        max_restarts: 0
        host_network: true
        environment { key: "NCCL_DEBUG" value: "INFO" }
        environment { key: "LEVEL" value: "3" }
        environment { key: "EMPTY" value: "" }
        capabilities: "IPC_LOCK"
        capabilities: "SYS_RESOURCE"
        volumes { name: "data" mount_path: "/data" claim: "corpus" read_only: true }
        volumes { name: "nvme" host_path: "/nvme" }
        accelerators {
          accelerator: "H800"
          node_selector { key: "nvidia.com/gpu.product" value: "NVIDIA-H800" }
          tolerations { key: "gpu" operator: "Exists" }
          resources { key: "rdma/hca" value: "8" }
          resources { key: "memory" value: "900Gi" }
        }
        slurm { account: "llm" time_limit: "2-00:00:00" }
      )pb");
}

TEST(SchedulerFileTest, ReadsJson) {
  ExpectOptions(R"({"image": "a:1", "slurm": {"qos": "high"}})", R"pb(image: "a:1"
                                                                      slurm { qos: "high" })pb");
}

TEST(SchedulerFileTest, TellsEveryFaultWithItsLine) {
  v1::LaunchOptions options;
  EXPECT_THAT(
      Lines(ParseSchedulerFile(R"(imag: a
image: [a]
name: true
master_port: 0
max_restarts: -1
host_network: yes
image: b
environment: [A]
volumes: {name: a}
capabilities: {A: b}
slurm: high
accelerators:
  - accelerator: {}
    gress: gpu
    resources: {a: [b], c: 1, c: 2}
  - H800
)",
                               options)),
      ElementsAre(
          "1: the file has no field \"imag\"; did you mean image",
          "2: image must be a string, not a list",
          "3: name must be a string; put quotes around true",
          "4: master_port must be a whole number of at least 1, not \"0\"",
          "5: max_restarts must be a whole number of at least 0, not \"-1\"",
          "6: host_network must be true or false, not \"yes\"",
          "7: the file has the field image twice", "8: environment must be a map, not a list",
          "9: volumes must be a list, not a map", "10: capabilities must be a list, not a map",
          "11: slurm must be a map, not \"high\"", "13: accelerator must be a string, not a map",
          "14: an entry of accelerators has no field \"gress\"; did you mean gres",
          "15: resources must be a string, not a list", "15: resources has \"c\" twice",
          "16: an entry of accelerators must be a map, not \"H800\""));
}

TEST(SchedulerFileTest, TellsAtMostTwentyFaults) {
  std::string file;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&file, "field", i, ": 1\n");
  v1::LaunchOptions options;
  EXPECT_THAT(ParseSchedulerFile(file, options), SizeIs(21));
  EXPECT_THAT(ParseSchedulerFile("a: [", options), SizeIs(1));
  EXPECT_THAT(Lines(ParseSchedulerFile("", options)),
              ElementsAre("0: the file must be a map, not nothing"));
}

}  // namespace
}  // namespace hapmoe::client
