// Every file of deploy/engines: strict JSON of EngineCapabilities, and the mixes that matter.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/option_table.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "hapmoe/v1/engine.pb.h"
#include "server/embedded/embedded.h"

namespace hapmoe {
namespace {

using ::hapmoe::v1::EngineCapabilities;
using ::hapmoe::v1::VendorEnvironment;
using ::hapmoe::v1::VendorMix;

std::vector<EngineCapabilities> LoadAll() {
  std::vector<EngineCapabilities> engines;
  for (const server::EmbeddedFile& file : server::EmbeddedEngines()) {
    EngineCapabilities& engine = engines.emplace_back();
    google::protobuf::util::JsonParseOptions strict;
    strict.ignore_unknown_fields = false;
    const auto status =
        google::protobuf::util::JsonStringToMessage(std::string(file.content), &engine, strict);
    EXPECT_TRUE(status.ok()) << file.name << ": " << status.ToString();
    EXPECT_EQ(std::string(file.name), engine.engine() + ".json");
  }
  return engines;
}

// The mix of exactly these vendors, or null.
const VendorMix* FindMix(const EngineCapabilities& engine, const std::set<std::string>& vendors) {
  for (const VendorMix& mix : engine.mixes()) {
    if (std::set<std::string>(mix.vendors().begin(), mix.vendors().end()) == vendors) return &mix;
  }
  return nullptr;
}

TEST(EnginesTest, EveryMixAndEnvironmentIsSourced) {
  for (const EngineCapabilities& engine : LoadAll()) {
    SCOPED_TRACE(engine.engine());
    EXPECT_FALSE(engine.display_name().empty());
    EXPECT_FALSE(engine.version().empty());
    std::set<std::set<std::string>> seen;
    for (const VendorMix& mix : engine.mixes()) {
      const std::set<std::string> vendors(mix.vendors().begin(), mix.vendors().end());
      EXPECT_EQ(vendors.size(), static_cast<size_t>(mix.vendors_size()));
      EXPECT_TRUE(seen.insert(vendors).second) << "listed twice: " << mix.ShortDebugString();
      EXPECT_FALSE(mix.backend().empty());
      EXPECT_FALSE(mix.source().empty());
      EXPECT_EQ(mix.stock(), mix.needs().empty()) << mix.ShortDebugString();
    }
    for (const VendorEnvironment& environment : engine.environments()) {
      EXPECT_FALSE(environment.visible_devices_variable().empty());
      EXPECT_FALSE(environment.source().empty());
    }
  }
}

TEST(EnginesTest, EveryVendorOfAMixHasAnEnvironment) {
  for (const EngineCapabilities& engine : LoadAll()) {
    std::set<std::string> known;
    for (const VendorEnvironment& environment : engine.environments()) {
      EXPECT_TRUE(known.insert(environment.vendor()).second) << environment.vendor();
    }
    for (const VendorMix& mix : engine.mixes()) {
      for (const std::string& vendor : mix.vendors()) {
        EXPECT_EQ(known.count(vendor), 1u) << engine.engine() << ": " << vendor;
      }
    }
  }
}

TEST(EnginesTest, StockMegatronMixesTypesOfOneVendorOnly) {
  for (const EngineCapabilities& engine : LoadAll()) {
    if (engine.engine() != "megatron-lm") continue;
    const VendorMix* nvidia = FindMix(engine, {"NVIDIA"});
    ASSERT_NE(nvidia, nullptr);
    EXPECT_TRUE(nvidia->stock());
    EXPECT_EQ(nvidia->backend(), "nccl");
    const VendorMix* huawei = FindMix(engine, {"NVIDIA", "Huawei"});
    ASSERT_NE(huawei, nullptr);
    EXPECT_FALSE(huawei->stock());
    for (const VendorMix& mix : engine.mixes()) {
      if (mix.vendors_size() > 1) {
        EXPECT_FALSE(mix.stock()) << mix.ShortDebugString();
      }
    }
    return;
  }
  FAIL() << "no file for megatron-lm";
}

TEST(Engines, AreWhatTheCommandLineOffers) {
  std::vector<std::string> engines = {"any"};
  for (const EngineCapabilities& engine : LoadAll()) engines.push_back(engine.engine());
  for (const client::command_line::Option& option : client::command_line::AllOptions()) {
    if (std::string(option.name) != "--engine") continue;
    const std::vector<std::string> choices = absl::StrSplit(option.choices, ' ');
    EXPECT_THAT(choices, ::testing::UnorderedElementsAreArray(engines));
    return;
  }
  FAIL() << "there is no option --engine";
}

}  // namespace
}  // namespace hapmoe
