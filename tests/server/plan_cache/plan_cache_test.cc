#include "server/plan_cache/plan_cache.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/server/testing/built_in.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

RequestIdentity Identity(const std::string& form) {
  return {std::make_shared<const std::string>(form)};
}

KeptAnswerPtr AnswerOf(const std::string& plan_id, size_t bytes = 100, PlanBasis basis = {}) {
  v1::PlanAnswer answer;
  answer.mutable_plan()->set_plan_id(plan_id);
  answer.add_notes(std::string(bytes, 'x'));
  return MakeKeptAnswer(answer, std::move(basis));
}

class PlanCacheTest : public ::testing::Test {
 protected:
  // The profiles of now, and a basis on those of a cluster of one type.
  NumberedView Now(uint64_t number) { return {{profiles_->catalog(), nullptr}, number}; }
  PlanBasis BasisOn(const std::string& accelerator) {
    return PlanBasis(ClusterOf(accelerator, 1), {}, Now(0).view);
  }

  const std::unique_ptr<ProfileStore> profiles_ = BuiltInProfiles();
};

TEST_F(PlanCacheTest, FindsByFormAndByTheSpellingsThatWereUsed) {
  PlanCache cache(1 << 20);
  const KeptAnswerPtr answer = AnswerOf("plan");
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "one", Now(1)).has_value());
  cache.Store(Identity("form"), "one", answer);
  EXPECT_EQ(cache.FindSpelling(AnswerKind::kPlan, "one", Now(1))->answer, answer);
  EXPECT_EQ(cache.FindForm(Identity("form"), "other", Now(1))->answer, answer);
  EXPECT_EQ(cache.FindSpelling(AnswerKind::kPlan, "other", Now(1))->answer, answer);
  EXPECT_EQ(*cache.FindSpelling(AnswerKind::kPlan, "other", Now(1))->identity.form, "form");
  EXPECT_FALSE(cache.FindForm(Identity("for"), "", Now(1)).has_value());
  EXPECT_EQ(cache.entries(), 1u);
  EXPECT_EQ(cache.FindPlan("plan")->answer, answer);
  EXPECT_FALSE(cache.FindPlan("another").has_value());
}

TEST_F(PlanCacheTest, SpellingsKeepTheirTimeBudgets) {
  PlanCache cache(1 << 20);
  RequestIdentity identity = Identity("form");
  cache.Store(identity, "one", AnswerOf("plan"));
  identity.budget_nanoseconds = 7;
  cache.FindForm(identity, "other", Now(1));
  EXPECT_EQ(cache.FindSpelling(AnswerKind::kPlan, "one", Now(1))->identity.budget_nanoseconds, 0);
  EXPECT_EQ(cache.FindSpelling(AnswerKind::kPlan, "other", Now(1))->identity.budget_nanoseconds, 7);
}

TEST_F(PlanCacheTest, SpellingsAreFewAndTheLatest) {
  PlanCache cache(1 << 20);
  cache.Store(Identity("form"), "0", AnswerOf("plan"));
  const size_t one = cache.bytes();
  for (int i = 1; i < 100; ++i) cache.FindForm(Identity("form"), std::to_string(i), Now(1));
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "0", Now(1)).has_value());
  EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, "99", Now(1)).has_value());
  EXPECT_LT(cache.bytes(), one + 1000);
}

TEST_F(PlanCacheTest, ALaterAnswerTakesThePlaceOfTheFirst) {
  PlanCache cache(1 << 20);
  cache.Store(Identity("form"), "one", AnswerOf("first", 10000));
  cache.Store(Identity("form"), "two", AnswerOf("second", 10));
  EXPECT_EQ(cache.entries(), 1u);
  EXPECT_LT(cache.bytes(), 10000u);
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "one", Now(1)).has_value());
  EXPECT_EQ(cache.FindSpelling(AnswerKind::kPlan, "two", Now(1))->answer->plan_ids.front(),
            "second");
}

TEST_F(PlanCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  const KeptAnswerPtr answer = AnswerOf("plan", 1000);
  PlanCache probe(1 << 20);
  probe.Store(Identity("a"), "A", answer);
  const size_t one = probe.bytes();
  EXPECT_GT(one, answer->bytes());
  PlanCache cache(3 * one);
  for (const char* name : {"a", "b", "c"})
    cache.Store(Identity(name), std::string(1, name[0] - 32), answer);
  EXPECT_EQ(cache.entries(), 3u);
  EXPECT_EQ(cache.bytes(), 3 * one);
  EXPECT_TRUE(
      cache.FindSpelling(AnswerKind::kPlan, "A", Now(1)).has_value());  // Used: it outlives b.
  cache.Store(Identity("d"), "D", answer);
  EXPECT_EQ(cache.bytes(), 3 * one);
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "B", Now(1)).has_value());
  for (const char* spelling : {"A", "C", "D"}) {
    EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, spelling, Now(1)).has_value()) << spelling;
  }
  // One that leaves no room for others.
  PlanCache small(one);
  small.Store(Identity("a"), "A", answer);
  small.Store(Identity("b"), "B", AnswerOf("large", 5000));
  EXPECT_EQ(small.entries(), 1u);
  EXPECT_TRUE(small.FindSpelling(AnswerKind::kPlan, "A", Now(1)).has_value());
  EXPECT_LE(small.bytes(), one);
}

TEST_F(PlanCacheTest, BytesAreNothingWhenNothingIsLeft) {
  PlanCache cache(1 << 20);
  for (int i = 0; i < 50; ++i) {
    cache.Store(Identity(std::to_string(i)), "s" + std::to_string(i),
                AnswerOf("plan", static_cast<size_t>(i) * 37, BasisOn("H800")));
    cache.FindForm(Identity(std::to_string(i)), "t" + std::to_string(i), Now(1));
  }
  EXPECT_EQ(cache.entries(), 50u);
  v1::AcceleratorProfile changed = profiles_->catalog()->Find("H800")->wire;
  changed.mutable_memory()->mutable_capacity_bytes()->set_value(70e9);
  ASSERT_TRUE(profiles_->Put(changed).ok());
  cache.DropStale(Now(2));
  EXPECT_EQ(cache.entries(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(PlanCacheTest, GivesNothingWhoseBasisHasChanged) {
  PlanCache cache(1 << 20);
  cache.Store(Identity("h800"), "h", AnswerOf("plan", 10, BasisOn("H800")));
  cache.Store(Identity("ascend"), "a", AnswerOf("plan", 10, BasisOn("Ascend 910B1")));
  const NumberedView before = Now(1);
  EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, "h", before).has_value());
  v1::AcceleratorProfile changed = profiles_->catalog()->Find("H800")->wire;
  changed.mutable_memory()->mutable_capacity_bytes()->set_value(70e9);
  ASSERT_TRUE(profiles_->Put(changed).ok());
  const NumberedView after = Now(2);
  EXPECT_TRUE(
      cache.FindSpelling(AnswerKind::kPlan, "a", after).has_value());  // It rests on others.
  // A late caller who looked at the profiles before gets what was right then.
  EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, "h", before).has_value());
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "h", after).has_value());
  EXPECT_FALSE(cache.FindForm(Identity("h800"), "", after).has_value());
  EXPECT_EQ(cache.entries(), 1u);
  // And what is right now is not dropped for a caller who looked before.
  cache.Store(Identity("h800"), "h", AnswerOf("new", 10, BasisOn("H800")));
  EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, "h", after).has_value());
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "h", before).has_value());
  EXPECT_TRUE(cache.FindSpelling(AnswerKind::kPlan, "h", after).has_value());
}

TEST_F(PlanCacheTest, WithoutRoomNothingIsKept) {
  PlanCache cache(0);
  cache.Store(Identity("form"), "one", AnswerOf("plan"));
  EXPECT_FALSE(cache.FindSpelling(AnswerKind::kPlan, "one", Now(1)).has_value());
  EXPECT_FALSE(cache.FindForm(Identity("form"), "one", Now(1)).has_value());
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(PlanBasis, NamesOfTheLaunchCountToo) {
  const std::unique_ptr<ProfileStore> profiles = BuiltInProfiles();
  v1::LaunchOptions launch;
  launch.add_accelerators()->set_accelerator("new");
  const PlanBasis without(ClusterOf("H800", 1), {}, {profiles->catalog(), nullptr});
  const PlanBasis with(ClusterOf("H800", 1), launch, {profiles->catalog(), nullptr});
  EXPECT_FALSE(with == without);
  ASSERT_TRUE(profiles->Put(RoundProfile("New")).ok());
  EXPECT_TRUE(without.HoldsIn({profiles->catalog(), nullptr}));
  EXPECT_FALSE(with.HoldsIn({profiles->catalog(), nullptr}));
}

TEST(PlanBasis, CorrectionsCount) {
  const std::unique_ptr<ProfileStore> profiles = BuiltInProfiles();
  const auto catalog = profiles->catalog();
  const auto& h800 = catalog->Find("H800")->core;
  auto corrected = std::make_shared<CorrectedProfiles>();
  corrected->types[h800].corrected = std::make_shared<profile::AcceleratorProfile>(*h800);
  auto same = std::make_shared<CorrectedProfiles>(*corrected);
  const PlanBasis plain(ClusterOf("H800", 1), {}, {catalog, nullptr});
  const PlanBasis basis(ClusterOf("H800", 1), {}, {catalog, corrected});
  EXPECT_FALSE(plain == basis);
  EXPECT_FALSE(plain.HoldsIn({catalog, corrected}));
  EXPECT_TRUE(basis.HoldsIn({catalog, same}));
  same->types[h800].corrected = std::make_shared<profile::AcceleratorProfile>(*h800);
  EXPECT_FALSE(basis.HoldsIn({catalog, same}));
  // Of another type.
  const PlanBasis ascend(ClusterOf("Ascend 910B1", 1), {}, {catalog, nullptr});
  EXPECT_TRUE(ascend.HoldsIn({catalog, corrected}));
}

}  // namespace
}  // namespace hapmoe::server
