#include "client/cluster_file.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const std::vector<TextFault>& faults) {
  std::vector<std::string> lines;
  for (const TextFault& fault : faults) lines.push_back(absl::StrCat(fault.line, ": ", fault.what));
  return lines;
}

v1::Cluster FromText(const std::string& text) {
  v1::Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster));
  return cluster;
}

void ExpectCluster(const std::string& file, const std::string& expected) {
  v1::Cluster cluster;
  EXPECT_THAT(Lines(ParseCluster(file, cluster)), IsEmpty());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(cluster, FromText(expected)))
      << cluster.DebugString();
}

TEST(ClusterFileTest, ReadsEveryField) {
  ExpectCluster(
      R"(
# The paper's cluster.
pools:
  - name: fast
    accelerator: H800-SXM
    nodes: 4
    accelerators_per_node: 8
  - name: 'slow'
    accelerator: "A100"
    hosts: [a01, "a02", 10.0.0.3]
    devices: [0, 5]
    network:
      bytes_per_second: 25e9
      latency_seconds: 5.0E-6
    host_memory_bytes: 2e12
    price_per_accelerator_hour: 1.8
links:
  - {between: [fast, slow], bytes_per_second: 12500000000, latency_seconds: .00001}
)",
      R"pb(
        pools { name: "fast" accelerator: "H800-SXM" nodes: 4 accelerators_per_node: 8 }
        pools {
          name: "slow"
          accelerator: "A100"
          hosts: "a01"
          hosts: "a02"
          hosts: "10.0.0.3"
          devices: 0
          devices: 5
          network { bytes_per_second: 25e9 latency_seconds: 5e-6 }
          host_memory_bytes: 2e12
          price_per_accelerator_hour: 1.8
        }
        links { between: "fast" between: "slow" bytes_per_second: 12.5e9 latency_seconds: 1e-5 }
      )pb");
}

TEST(ClusterFileTest, ReadsJson) {
  ExpectCluster(R"({"pools": [{"name": "p", "accelerator": "H100", "nodes": 2,
                    "network": {"bytes_per_second": 5e10}}], "links": []})",
                R"pb(pools {
                       name: "p"
                       accelerator: "H100"
                       nodes: 2
                       network { bytes_per_second: 5e10 }
                     })pb");
}

TEST(ClusterFileTest, AliasesAreCopies) {
  ExpectCluster(R"(
pools:
  - {name: a, accelerator: H100, nodes: 1, network: &ib {bytes_per_second: 5e10}}
  - {name: b, accelerator: H20, nodes: 1, network: *ib}
)",
                R"pb(pools {
                       name: "a"
                       accelerator: "H100"
                       nodes: 1
                       network { bytes_per_second: 5e10 }
                     }
                     pools {
                       name: "b"
                       accelerator: "H20"
                       nodes: 1
                       network { bytes_per_second: 5e10 }
                     })pb");
}

struct Refusal {
  const char* name;
  std::string text;
  std::vector<std::string> faults;
};

class ClusterFileRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(ClusterFileRefusalTest, NamesEveryFaultAndItsLine) {
  v1::Cluster cluster;
  EXPECT_THAT(Lines(ParseCluster(GetParam().text, cluster)), ElementsAreArray(GetParam().faults));
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, ClusterFileRefusalTest,
    ::testing::Values(
        Refusal{"Empty", "", {"1: a cluster must be a map, not nothing"}},
        Refusal{"NotAMap", "- a", {"1: a cluster must be a map, not a list"}},
        Refusal{"NoPools", "links: []", {"1: a cluster lacks the field pools"}},
        Refusal{"EmptyPools", "pools: []", {"1: pools must not be empty"}},
        Refusal{"PoolsNotAList", "pools: 3", {"1: pools must be a list, not \"3\""}},
        Refusal{
            "UnknownFields",
            "pool: []\npools:\n- name: a\n  accelerater: H100\n  accelerator: H100\n  nodes: 1\n",
            {"1: a cluster has no field \"pool\"; did you mean pools",
             "4: a pool has no field \"accelerater\"; did you mean accelerator"}},
        Refusal{"RepeatedField",
                "pools:\n- {name: a, accelerator: b, nodes: 1,\n   nodes: 2}",
                {"3: a pool has the field nodes twice"}},
        Refusal{"NodesAndHosts",
                "pools:\n- {name: a, accelerator: b, nodes: 1, hosts: [x]}",
                {"2: a pool has both nodes and hosts; give one of them"}},
        Refusal{"DeviceIsNoIndex",
                "pools:\n- {name: a, accelerator: b, nodes: 1, devices: [0, -1]}",
                {"2: a device index must be a whole number from 0, not \"-1\""}},
        Refusal{"NoNodes",
                "pools:\n- {name: a, accelerator: b}",
                {"2: a pool lacks its nodes: give their number, or hosts"}},
        Refusal{"LacksNames",
                "pools:\n- {nodes: 1}",
                {"2: a pool lacks the field name", "2: a pool lacks the field accelerator"}},
        Refusal{"QuotedNumber",
                "pools:\n- {name: a, accelerator: b, nodes: \"4\"}",
                {"2: nodes must be a whole number above 0, not \"4\" in quotes"}},
        Refusal{"Fraction",
                "pools:\n- {name: a, accelerator: b, nodes: 4.5}",
                {"2: nodes must be a whole number above 0, not \"4.5\""}},
        Refusal{"Negative",
                "pools:\n- {name: a, accelerator: b, nodes: -4}",
                {"2: nodes must be a whole number above 0, not \"-4\""}},
        Refusal{"Zero",
                "pools:\n- {name: a, accelerator: b, nodes: 1, accelerators_per_node: 0}",
                {"2: accelerators_per_node must be a whole number above 0, not \"0\""}},
        Refusal{"TooMany",
                "pools:\n- {name: a, accelerator: b, nodes: 4294967296}",
                {"2: nodes must be a whole number above 0, not \"4294967296\""}},
        Refusal{"Hexadecimal",
                "pools:\n- {name: a, accelerator: b, nodes: 0x10}",
                {"2: nodes must be a whole number above 0, not \"0x10\""}},
        Refusal{"NumberAsName",
                "pools:\n- {name: 1e3, accelerator: true, hosts: [007]}",
                {"2: name must be a string; put quotes around 1e3",
                 "2: accelerator must be a string; put quotes around true",
                 "2: a host must be a string; put quotes around 007"}},
        Refusal{"EmptyStrings",
                "pools:\n- {name: '', accelerator: ~, nodes: 1}",
                {"2: name must not be empty", "2: accelerator must be a string, not nothing"}},
        Refusal{"Quantities",
                "pools:\n- name: a\n  accelerator: b\n  nodes: 1\n  network:\n"
                "    bytes_per_second: .inf\n    latency_seconds: 1e-6s\n",
                {"6: bytes_per_second must be a number above 0, not \".inf\"; leave it out for "
                 "the default",
                 "7: latency_seconds must be a number above 0, not \"1e-6s\"; leave it out for the "
                 "default"}},
        Refusal{"HugeQuantity",
                "pools:\n- {name: a, accelerator: b, nodes: 1, network: {bytes_per_second: 1e999}}",
                {"2: bytes_per_second must be a number above 0, not \"1e999\"; leave it out for "
                 "the default"}},
        Refusal{
            "Links",
            "pools:\n- {name: a, accelerator: b, nodes: 1}\nlinks:\n- {between: [a]}\n- {}\n- 3",
            {"4: between must name two pools", "5: a link lacks the field between",
             "6: a link must be a map, not \"3\""}},
        Refusal{"TwoDocuments", "pools: []\n---\npools: []", {"2: more than one document"}},
        Refusal{"Tag",
                "pools: !!binary aGk=",
                {"1: the tag tag:yaml.org,2002:binary is not understood"}},
        Refusal{"AliasOfItself", "pools: &a [*a]", {"1: an alias of itself"}},
        Refusal{"Nul", std::string("pools:\0", 7), {"1: holds a NUL byte at offset 6"}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(ClusterFileTest, SyntaxErrorsNameTheLine) {
  v1::Cluster cluster;
  const std::vector<TextFault> faults = ParseCluster("pools:\n  - {name: a\n", cluster);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].line, 3);
}

TEST(ClusterFileTest, LongListsOfFaultsAreCut) {
  std::string text = "pools:\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "- 1\n");
  v1::Cluster cluster;
  const std::vector<TextFault> faults = ParseCluster(text, cluster);
  EXPECT_EQ(faults.size(), 21u);
  EXPECT_EQ(faults.back().what, "and more");
}

TEST(ClusterFileTest, HostileTextsEndInAFault) {
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 20; ++i) {
    absl::StrAppend(&laughs, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&laughs, "*a", i - 1, ", ");
    absl::StrAppend(&laughs, "]\n");
  }
  std::string key_bomb = std::string(100'000, '[');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {laughs, "aliases expanded"},
      {key_bomb, "nested deeper"},
      {std::string(100'000, '{'), "nested deeper"},
      {absl::StrJoin(std::vector<std::string>(100'000, "- "), ""), "nested deeper"},
      {absl::StrJoin(std::vector<std::string>(100'000, "? "), ""), "nested deeper"},
      {absl::StrCat("pools: [", std::string(500'000, ','), "]"), ""},
      {std::string(5 << 20, 'a'), "larger than"},
  };
  for (const auto& [text, what] : cases) {
    SCOPED_TRACE(text.substr(0, 40));
    v1::Cluster cluster;
    const std::vector<TextFault> faults = ParseCluster(text, cluster);
    ASSERT_FALSE(faults.empty());
    EXPECT_THAT(faults[0].what, HasSubstr(what));
  }
}

// Random edits of a valid file: faults or a cluster, never a crash or a hang.
TEST(ClusterFileTest, RandomEditsAreSurvived) {
  const std::string valid =
      "pools:\n- &p {name: fast, accelerator: H800, nodes: 4}\n- name: slow\n  accelerator: "
      "\"A100\"\n"
      "  hosts: [a, b]\n  network: {bytes_per_second: 1e9}\nlinks: [{between: [fast, slow]}]\n";
  const std::string alphabet = " \n\t-:,[]{}&*!|>'\"%@`?#~0123456789eE.ap\\\xff";
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 3000; ++i) {
    std::string text = valid;
    for (int edits = static_cast<int>(random() % 6); edits >= 0; --edits) {
      const size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + random() % 8);
      }
      if (text.empty()) text = "x";
    }
    v1::Cluster cluster;
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", text ", i, ":\n", text));
    for (const TextFault& fault : ParseCluster(text, cluster)) EXPECT_GE(fault.line, 0);
  }
}

}  // namespace
}  // namespace hapmoe::client
