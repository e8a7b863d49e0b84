#include "server/plan_cache/request_ids.h"

#include <chrono>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/testing/built_in.h"

namespace hapmoe::server {
namespace {

using Verdict = RequestIds::Verdict;
using std::chrono::minutes;

class RequestIdsTest : public ::testing::Test {
 protected:
  static RequestIdentity Identity(const std::string& form, int64_t budget = 0) {
    return {std::make_shared<const std::string>(form), budget};
  }
  static KeptAnswerPtr Answer(size_t bytes = 10) {
    v1::PlanAnswer answer;
    answer.add_notes(std::string(bytes, 'x'));
    return MakeKeptAnswer(answer);
  }
  RequestIds::Claim Begin(const std::string& id, const RequestIdentity& identity) {
    return ids_.Begin(id, identity, /*anew=*/false, now_, time_);
  }

  const std::unique_ptr<ProfileStore> profiles_ = BuiltInProfiles();
  const NumberedView now_ = {{profiles_->catalog(), nullptr}, 1};
  RequestIds::TimePoint time_ = RequestIds::TimePoint() + minutes(60);
  RequestIds ids_{{size_t{100} << 10, minutes(10)}};
};

TEST_F(RequestIdsTest, TheFirstAnswerIsGivenAgain) {
  const KeptAnswerPtr first = Answer();
  EXPECT_EQ(Begin("id", Identity("a")).verdict, Verdict::kFirst);
  ids_.Settle("id", Identity("a"), first, time_);
  EXPECT_EQ(Begin("id", Identity("a")).verdict, Verdict::kAnswered);
  EXPECT_EQ(Begin("id", Identity("a")).answer, first);
  // Of a call that has another answer at hand too.
  EXPECT_EQ(ids_.Answer("id", Identity("a"), Answer(), now_, time_).answer, first);
  EXPECT_EQ(Begin("other", Identity("a")).verdict, Verdict::kFirst);
}

TEST_F(RequestIdsTest, AnotherRequestIsRefusedUntilTheWindowIsOver) {
  Begin("id", Identity("a"));
  EXPECT_EQ(Begin("id", Identity("b")).verdict, Verdict::kOther);  // While it is under way, too.
  ids_.Settle("id", Identity("a"), Answer(), time_);
  EXPECT_EQ(Begin("id", Identity("b")).verdict, Verdict::kOther);
  EXPECT_EQ(Begin("id", Identity("a", 5)).verdict, Verdict::kOther);
  EXPECT_EQ(ids_.Answer("id", Identity("b"), Answer(), now_, time_).verdict, Verdict::kOther);
  time_ += minutes(10);
  EXPECT_EQ(Begin("id", Identity("b")).verdict, Verdict::kFirst);
}

TEST_F(RequestIdsTest, ACallWithoutAnAnswerLeavesNoTrace) {
  Begin("id", Identity("a"));
  Begin("id", Identity("a"));
  ids_.Settle("id", Identity("a"), nullptr, time_);
  EXPECT_EQ(Begin("id", Identity("b")).verdict, Verdict::kOther);  // One is under way yet.
  ids_.Settle("id", Identity("a"), nullptr, time_);
  EXPECT_EQ(ids_.size(), 0u);
  EXPECT_EQ(ids_.bytes(), 0u);
  EXPECT_EQ(Begin("id", Identity("b")).verdict, Verdict::kFirst);
}

TEST_F(RequestIdsTest, AnAnswerAnewTakesThePlaceOfTheFirst) {
  Begin("id", Identity("a"));
  ids_.Settle("id", Identity("a"), Answer(), time_);
  EXPECT_EQ(ids_.Begin("id", Identity("a"), /*anew=*/true, now_, time_).verdict, Verdict::kFirst);
  const KeptAnswerPtr second = Answer();
  ids_.Settle("id", Identity("a"), second, time_);
  EXPECT_EQ(Begin("id", Identity("a")).answer, second);
}

TEST_F(RequestIdsTest, ThoseAnsweredLongestAgoAreForgotten) {
  for (int i = 0; i < 1000; ++i) {
    const std::string id = "id" + std::to_string(i);
    Begin(id, Identity("a"));
    ids_.Settle(id, Identity("a"), Answer(1000), time_);
    EXPECT_LE(ids_.bytes(), size_t{100} << 10);
  }
  EXPECT_GT(ids_.size(), 50u);
  EXPECT_EQ(Begin("id999", Identity("a")).verdict, Verdict::kAnswered);
  EXPECT_EQ(Begin("id0", Identity("a")).verdict, Verdict::kFirst);
}

TEST_F(RequestIdsTest, NoIdIsNone) {
  EXPECT_EQ(Begin("", Identity("a")).verdict, Verdict::kFirst);
  ids_.Settle("", Identity("a"), Answer(), time_);
  EXPECT_EQ(Begin("", Identity("b")).verdict, Verdict::kFirst);
  EXPECT_EQ(ids_.size(), 0u);
}

}  // namespace
}  // namespace hapmoe::server
