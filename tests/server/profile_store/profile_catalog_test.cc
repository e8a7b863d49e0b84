#include "server/profile_store/profile_catalog.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProfileEntryPtr Entry(const std::string& name, std::vector<std::string> aliases = {}) {
  auto core = std::make_shared<profile::AcceleratorProfile>();
  core->name = name;
  core->aliases = std::move(aliases);
  auto entry = std::make_shared<ProfileEntry>();
  entry->core = core;
  return entry;
}

ProfileCatalog SmallCatalog() {
  return ProfileCatalog({Entry("H800-SXM", {"H800"}), Entry("H100-SXM", {"H100"}),
                         Entry("A100-SXM-80GB", {"A100"}), Entry("Ascend 910B3", {"Ascend910B3"})},
                        7);
}

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);  // k-s, e-i, +g
  EXPECT_EQ(EditDistance("h800", "h80"), 1u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
}

TEST(ProfileCatalog, FindsByNameAndAliasIgnoringCase) {
  const ProfileCatalog catalog = SmallCatalog();
  EXPECT_EQ(catalog.Find("h800-sxm")->core->name, "H800-SXM");
  EXPECT_EQ(catalog.Find("H800")->core->name, "H800-SXM");
  EXPECT_EQ(catalog.Find("ASCEND910b3")->core->name, "Ascend 910B3");
  EXPECT_EQ(catalog.Find("H80"), nullptr);
  EXPECT_EQ(catalog.Find(""), nullptr);
  EXPECT_EQ(catalog.size(), 4u);
  EXPECT_EQ(catalog.version(), 7);
}

TEST(ProfileCatalog, NearestNamesComeFirst) {
  const ProfileCatalog catalog = SmallCatalog();
  EXPECT_THAT(catalog.Nearest("h-100-sxm"), ElementsAre("H100-SXM", "H800-SXM"));  // 1, 3 edits.
  EXPECT_THAT(catalog.Nearest("H80"), ElementsAre("H800-SXM"));
  EXPECT_THAT(catalog.Nearest("910B"), ElementsAre("Ascend 910B3"));
  EXPECT_THAT(catalog.Nearest("a100-sxm-80gbb", 1), ElementsAre("A100-SXM-80GB"));
  EXPECT_THAT(catalog.Nearest("something else"), IsEmpty());
  EXPECT_THAT(catalog.Nearest(std::string(100000, 'x')), IsEmpty());
}

TEST(ProfileCatalog, PagesFollowEachOther) {
  const ProfileCatalog catalog = SmallCatalog();
  const auto first = catalog.List(3, "");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->entries.front()->core->name, "A100-SXM-80GB");
  const auto second = catalog.List(3, first->next_token);
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second->entries.size(), 1u);
  EXPECT_EQ(second->entries.front()->core->name, "H800-SXM");
  EXPECT_EQ(second->next_token, "");
  EXPECT_EQ(catalog.List(4, "")->next_token, "");
}

TEST(ProfileCatalog, PageTokenOutlivesTheProfileItNames) {
  const std::string token = SmallCatalog().List(1, "")->next_token;
  const ProfileCatalog without({Entry("H800-SXM")}, 8);
  const auto page = without.List(10, token);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->entries.size(), 1u);
}

TEST(ProfileCatalog, RefusesTokensThatNoCatalogGave) {
  const ProfileCatalog catalog = SmallCatalog();
  const std::string token = catalog.List(1, "")->next_token;
  std::string forged = token;
  forged.back() = forged.back() == '0' ? '1' : '0';
  for (const std::string& bad : {forged, token + "00", std::string("zz"), std::string("12345678"),
                                 std::string(100000, '0')}) {
    EXPECT_FALSE(catalog.List(1, bad).ok()) << bad.substr(0, 40);
  }
}

}  // namespace
}  // namespace hapmoe::server
