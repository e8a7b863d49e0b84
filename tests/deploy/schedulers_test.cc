// Every file of deploy/schedulers: strict JSON of SchedulerDefaults, sourced, and without a fault
// that a caller would be blamed for.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/schedulers/scheduler_options.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "hapmoe/v1/launch.pb.h"
#include "hapmoe/v1/profile.pb.h"
#include "server/embedded/embedded.h"
#include "server/wire/from_wire.h"

namespace hapmoe {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

template <typename Message>
Message Parse(const server::EmbeddedFile& file) {
  Message message;
  google::protobuf::util::JsonParseOptions strict;
  strict.ignore_unknown_fields = false;
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(file.content), &message, strict);
  EXPECT_TRUE(status.ok()) << file.name << ": " << status.ToString();
  return message;
}

std::vector<v1::SchedulerDefaults> LoadAll() {
  std::vector<v1::SchedulerDefaults> all;
  for (const server::EmbeddedFile& file : server::EmbeddedSchedulers()) {
    all.push_back(Parse<v1::SchedulerDefaults>(file));
  }
  return all;
}

// Vendors by accelerator type.
std::map<std::string, std::string> Vendors() {
  std::map<std::string, std::string> vendors;
  for (const server::EmbeddedFile& file : server::EmbeddedProfiles()) {
    const auto profile = Parse<v1::AcceleratorProfile>(file);
    vendors[profile.accelerator()] = profile.vendor();
  }
  return vendors;
}

TEST(SchedulersTest, EverySchedulerHasDefaultsOnce) {
  std::multiset<std::string> named;
  for (const v1::SchedulerDefaults& defaults : LoadAll()) {
    named.insert(defaults.schedulers().begin(), defaults.schedulers().end());
  }
  const std::vector<std::string> known = engine::SchedulerNames();
  EXPECT_EQ(named, std::multiset<std::string>(known.begin(), known.end()));
}

TEST(SchedulersTest, EveryFigureIsSourced) {
  for (const v1::SchedulerDefaults& defaults : LoadAll()) {
    EXPECT_FALSE(defaults.version().empty());
    std::set<std::string> sourced;
    for (const std::string& source : defaults.sources()) {
      sourced.insert(source.substr(0, source.find(':')));
    }
    EXPECT_EQ(sourced.count("master_port"), 1u);
    EXPECT_EQ(sourced.count("max_restarts"), 1u);
    EXPECT_EQ(sourced.count("signal"), defaults.options().slurm().signal().empty() ? 0u : 1u);
    for (const v1::PlacementDefault& one : defaults.placements()) {
      EXPECT_FALSE(one.source().empty()) << one.ShortDebugString();
    }
  }
}

TEST(SchedulersTest, PlacementsNameVendorsOrTypesThatAreKnownOnce) {
  const std::map<std::string, std::string> vendors = Vendors();
  std::set<std::string> all_vendors;
  for (const auto& [type, vendor] : vendors) all_vendors.insert(vendor);
  for (const v1::SchedulerDefaults& defaults : LoadAll()) {
    std::set<std::string> seen;
    for (const v1::PlacementDefault& one : defaults.placements()) {
      const std::string& type = one.placement().accelerator();
      EXPECT_NE(type.empty(), one.vendor().empty()) << one.ShortDebugString();
      EXPECT_TRUE(type.empty() ? all_vendors.count(one.vendor()) : vendors.count(type))
          << one.ShortDebugString();
      EXPECT_TRUE(seen.insert(one.vendor() + "/" + type).second) << one.ShortDebugString();
      Violations violations;
      engine::CheckPlacement(server::PlacementFromWire(one.placement()), "", violations);
      EXPECT_THAT(violations, IsEmpty()) << one.ShortDebugString();
    }
    for (const std::string& vendor : all_vendors) EXPECT_EQ(seen.count(vendor + "/"), 1u) << vendor;
  }
}

// Labels of a type are those that its vendor's own components set.
TEST(SchedulersTest, LabelsBelongToTheVendor) {
  const std::map<std::string, std::string> vendors = Vendors();
  const std::map<std::string, std::string> prefixes = {
      {"NVIDIA", "nvidia.com/"}, {"AMD", "amd.com/"}, {"Huawei", "accelerator-type"}};
  for (const v1::SchedulerDefaults& defaults : LoadAll()) {
    for (const v1::PlacementDefault& one : defaults.placements()) {
      for (const auto& [key, value] : one.placement().node_selector()) {
        EXPECT_THAT(key, StartsWith(prefixes.at(vendors.at(one.placement().accelerator()))));
      }
    }
  }
}

TEST(SchedulersTest, DefaultsHoldByThemselves) {
  for (const v1::SchedulerDefaults& defaults : LoadAll()) {
    for (const std::string& name : defaults.schedulers()) {
      Violations violations;
      const engine::SchedulerOptions options =
          server::LaunchFromWire({}, *engine::ParseScheduler(name), defaults, violations);
      engine::CheckSchedulerOptions(options, {}, violations);
      EXPECT_THAT(violations, IsEmpty()) << name;
    }
  }
}

}  // namespace
}  // namespace hapmoe
