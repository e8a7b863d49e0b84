#include "server/planning/engine_catalog.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/embedded/embedded.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::string_view kEngine = R"({
  "engine": "e",
  "display_name": "Engine",
  "mixes": [
    {"vendors": ["NVIDIA"], "backend": "nccl", "stock": true},
    {"vendors": ["NVIDIA", "Huawei"], "backend": "flagcx", "needs": "a special build"}
  ],
  "environments": [
    {"vendor": "NVIDIA", "variables": {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "B": "2", "A": "3"}},
    {"vendor": "Huawei", "variables": {"C": "4"}}
  ]
})";

std::shared_ptr<const profile::AcceleratorProfile> Profile(const std::string& vendor,
                                                           const std::string& architecture) {
  auto profile = std::make_shared<profile::AcceleratorProfile>();
  profile->vendor = vendor;
  profile->architecture = architecture;
  return profile;
}

TEST(EngineCatalog, FindsEnginesByName) {
  const auto catalog = EngineCatalog::Parse({kEngine});
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->Find("e")->display_name(), "Engine");
  EXPECT_EQ(catalog->Find("f"), nullptr);
}

TEST(EngineCatalog, RefusesBadTextsAndDuplicates) {
  EXPECT_FALSE(EngineCatalog::Parse({"{"}).ok());
  EXPECT_FALSE(EngineCatalog::Parse({R"({"no_such_field": 1})"}).ok());
  EXPECT_FALSE(EngineCatalog::Parse({kEngine, kEngine}).ok());
}

TEST(EngineCatalog, BuiltInEnginesAreSound) {
  std::vector<absl::string_view> texts;
  for (const EmbeddedFile& file : EmbeddedEngines()) texts.push_back(file.content);
  const auto catalog = EngineCatalog::Parse(texts);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const EngineCapabilities* megatron = catalog->Find("megatron-lm");
  ASSERT_NE(megatron, nullptr);
  EXPECT_THAT(megatron->Requirements({"NVIDIA"}), IsEmpty());
  ASSERT_THAT(megatron->Requirements({"NVIDIA", "Huawei"}), SizeIs(1));
  EXPECT_EQ(megatron->Requirements({"NVIDIA", "Huawei"})[0].backend, "flagcx");
}

TEST(Requirements, FollowTheSetOfVendors) {
  const auto catalog = EngineCatalog::Parse({kEngine});
  const EngineCapabilities& engine = *catalog->Find("e");
  EXPECT_THAT(engine.Requirements({"NVIDIA"}), IsEmpty());
  EXPECT_EQ(EngineCapabilities::Sentence(engine.Requirements({"Huawei", "NVIDIA"})),
            "a special build");
  // Not in the data: no engine is known to do it, and the answer says so.
  const auto unknown = engine.Requirements({"Huawei"});
  ASSERT_THAT(unknown, SizeIs(1));
  EXPECT_THAT(unknown[0].needs, HasSubstr("Huawei"));
}

TEST(Environments, AreThoseOfEachPoolsVendor) {
  const auto catalog = EngineCatalog::Parse({kEngine});
  const auto environments =
      catalog->Find("e")->Environments({Profile("NVIDIA", "sm_90"), Profile("NVIDIA", "sm_100"),
                                        Profile("Huawei", "ascend"), Profile("Unknown", "")});
  ASSERT_THAT(environments, SizeIs(4));
  EXPECT_TRUE(environments[0].single_connection);
  EXPECT_FALSE(environments[1].single_connection);  // Blackwell.
  EXPECT_FALSE(environments[2].single_connection);  // The data do not ask for it.
  ASSERT_THAT(environments[0].variables, SizeIs(3));
  EXPECT_EQ(environments[0].variables[0].name, "A");  // In order.
  EXPECT_EQ(environments[0].variables[0].value, "3");
  EXPECT_THAT(environments[3].variables, IsEmpty());
}

TEST(OldestComputeCapability, IgnoresOtherVendors) {
  EXPECT_EQ(OldestComputeCapability({}), 0);
  EXPECT_EQ(OldestComputeCapability({Profile("AMD", "gfx942")}), 0);
  EXPECT_EQ(OldestComputeCapability({Profile("NVIDIA", "sm_100"), Profile("NVIDIA", "sm_80"),
                                     Profile("Huawei", "ascend910b")}),
            8);
  EXPECT_EQ(OldestComputeCapability({Profile("NVIDIA", "sm_90a")}), 9);
  EXPECT_EQ(OldestComputeCapability({Profile("NVIDIA", "sm_")}), 0);
}

}  // namespace
}  // namespace hapmoe::server
