// What callers of Frontier and Explain get from a desk: the same as callers of Plan.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "tests/server/plan_cache/desk_fixture.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A request with one search, of a job with a layout.
template <typename Request>
Request RequestOf(const std::string& id = "") {
  Request request;
  *request.mutable_problem() = SmallPlanRequest().problem();
  *request.mutable_problem()->mutable_job() = SmallEvaluateRequest().job();
  request.set_request_id(id);
  return request;
}

template <typename Request>
struct Case;
template <>
struct Case<v1::FrontierRequest> {
  using Response = v1::FrontierResponse;
  static bool IsCut(const Response& response) {
    return response.limit() == v1::Termination::LIMIT_TIME;
  }
  static bool HasPlan(const Response& response) { return response.points(0).has_plan(); }
};
template <>
struct Case<v1::ExplainRequest> {
  using Response = v1::ExplainResponse;
  static bool IsCut(const Response& response) {
    return response.best().termination().limit() == v1::Termination::LIMIT_TIME;
  }
  static bool HasPlan(const Response& response) {
    return response.best().has_plan() && response.has_layout();
  }
};

template <typename Request>
class DeskQuestions : public ::testing::Test {
 protected:
  Request WithPolicy(v1::CachePolicy policy) {
    Request request = RequestOf<Request>();
    request.set_cache_policy(policy);
    return request;
  }
};
using Requests = ::testing::Types<v1::FrontierRequest, v1::ExplainRequest>;
TYPED_TEST_SUITE(DeskQuestions, Requests);

TYPED_TEST(DeskQuestions, EqualRequestsAreAnsweredFromMemory) {
  using Answer = typename Case<TypeParam>::Response;
  DeskFixture fixture;
  const TestCaller first = fixture.Ask(RequestOf<TypeParam>("1"));
  ASSERT_TRUE(first.status().ok()) << first.status();
  EXPECT_EQ(first.reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_TRUE(Case<TypeParam>::HasPlan(first.template response<Answer>()));
  EXPECT_FALSE(Case<TypeParam>::IsCut(first.template response<Answer>()));
  EXPECT_EQ(first.template response<Answer>().request_id(), "");
  TypeParam spelled = RequestOf<TypeParam>("2");
  spelled.mutable_problem()->mutable_constraints()->set_engine("megatron-lm");
  for (const TypeParam& same : {RequestOf<TypeParam>("3"), spelled}) {
    const TestCaller again = fixture.Ask(same);
    EXPECT_EQ(again.reply().source, v1::ANSWER_SOURCE_CACHE);
    EXPECT_EQ(again.reply().answer, first.reply().answer);
  }
  spelled.set_request_id("4");
  spelled.mutable_problem()->mutable_constraints()->set_memory_headroom_ratio(0.06);
  EXPECT_EQ(fixture.Ask(spelled).reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(fixture.gate().started, 2);
  EXPECT_EQ(fixture.listener().Of(Lookup::kHit), 2);
  EXPECT_EQ(fixture.listener().Of(Lookup::kMiss), 2);
}

TYPED_TEST(DeskQuestions, AreNotTakenForPlansOfTheSameProblem) {
  DeskFixture fixture;
  const TestCaller plan = fixture.Ask(RequestOf<v1::PlanRequest>("id"));
  const TestCaller other = fixture.Ask(RequestOf<TypeParam>("id"));
  ASSERT_TRUE(plan.status().ok() && other.status().ok()) << other.status();
  EXPECT_EQ(other.reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_TRUE(
      Case<TypeParam>::HasPlan(other.template response<typename Case<TypeParam>::Response>()));
  EXPECT_EQ(fixture.gate().started, 2);
}

TYPED_TEST(DeskQuestions, AnIdBelongsToOneRequest) {
  DeskFixture fixture;
  const TestCaller first = fixture.Ask(RequestOf<TypeParam>("id"));
  EXPECT_EQ(fixture.Ask(RequestOf<TypeParam>("id")).reply().answer, first.reply().answer);
  TypeParam other = RequestOf<TypeParam>("id");
  other.mutable_problem()->mutable_constraints()->set_memory_headroom_ratio(0.06);
  EXPECT_EQ(ReasonOf(fixture.Ask(other).status()), Reason::kRequestInvalid);
}

TYPED_TEST(DeskQuestions, PoliciesHold) {
  DeskFixture fixture;
  const struct {
    v1::CachePolicy policy;
    int searches;  // So far, with this one.
    size_t kept;   // Then.
  } kSteps[] = {{v1::CACHE_POLICY_BYPASS, 1, 0},        {v1::CACHE_POLICY_DO_NOT_STORE, 2, 0},
                {v1::CACHE_POLICY_USE, 3, 1},           {v1::CACHE_POLICY_DO_NOT_STORE, 3, 1},
                {v1::CACHE_POLICY_BYPASS_LOOKUP, 4, 1}, {v1::CACHE_POLICY_UNSPECIFIED, 4, 1}};
  for (const auto& step : kSteps) {
    SCOPED_TRACE(v1::CachePolicy_Name(step.policy));
    EXPECT_TRUE(fixture.Ask(this->WithPolicy(step.policy)).status().ok());
    EXPECT_EQ(fixture.gate().started, step.searches);
    EXPECT_EQ(fixture.desk().cache().entries(), step.kept);
  }
  const TestCaller unknown = fixture.Ask(this->WithPolicy(static_cast<v1::CachePolicy>(99)));
  EXPECT_EQ(ReasonOf(unknown.status()), Reason::kRequestInvalid);
}

TYPED_TEST(DeskQuestions, EqualRequestsShareOneSearch) {
  DeskFixture fixture;
  fixture.gate().open = false;
  std::vector<TestCaller> callers(5);
  for (TestCaller& caller : callers) fixture.Ask(RequestOf<TypeParam>(), caller);
  EXPECT_TRUE(Soon([&] { return fixture.gate().started == 1; }));
  EXPECT_EQ(fixture.desk().flights().flying(), 1u);
  fixture.gate().open = true;
  for (size_t i = 0; i < callers.size(); ++i) {
    ASSERT_TRUE(callers[i].AnsweredSoon());
    EXPECT_TRUE(callers[i].status().ok());
    EXPECT_EQ(callers[i].reply().source,
              i == 0 ? v1::ANSWER_SOURCE_SEARCH : v1::ANSWER_SOURCE_SHARED_SEARCH);
    EXPECT_EQ(callers[i].reply().answer, callers[0].reply().answer);
  }
  EXPECT_EQ(fixture.gate().started, 1);
}

TYPED_TEST(DeskQuestions, WhoIsAloneGetsWhatThereIsWhenHisTimeEnds) {
  DeskFixture fixture;
  fixture.gate().open = false;
  TestCaller caller;
  fixture.Ask(RequestOf<TypeParam>(), caller, Clock::now() + milliseconds(50));
  ASSERT_TRUE(caller.AnsweredSoon());
  ASSERT_TRUE(caller.status().ok()) << caller.status();
  EXPECT_TRUE(
      Case<TypeParam>::IsCut(caller.template response<typename Case<TypeParam>::Response>()));
  EXPECT_EQ(fixture.desk().cache().entries(), 0u);  // It depends on the time that there was.
}

TYPED_TEST(DeskQuestions, ASearchThatNobodyWaitsForIsStopped) {
  DeskFixture fixture;
  fixture.gate().open = false;
  TestCaller caller;
  const auto ticket = fixture.Ask(RequestOf<TypeParam>(), caller);
  ASSERT_TRUE(Soon([&] { return fixture.gate().started == 1; }));
  fixture.Cancel(caller, ticket);
  EXPECT_EQ(ReasonOf(caller.status()), Reason::kCallCancelled);
  EXPECT_TRUE(Soon([&] { return fixture.gate().cancelled == 1; }));
}

TYPED_TEST(DeskQuestions, AChangedProfileNeverServesAnOldAnswer) {
  DeskFixture fixture;
  const TestCaller before = fixture.Ask(RequestOf<TypeParam>());
  ASSERT_TRUE(before.status().ok());
  v1::AcceleratorProfile changed = fixture.profiles().catalog()->Find("H800")->wire;
  changed.mutable_memory()->mutable_capacity_bytes()->set_value(70e9);
  ASSERT_TRUE(fixture.profiles().Put(changed).ok());
  const TestCaller after = fixture.Ask(RequestOf<TypeParam>());
  EXPECT_EQ(after.reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_NE(after.reply().answer, before.reply().answer);
  EXPECT_EQ(fixture.gate().started, 2);
}

// Beside others whose search goes on, as alone.
TEST(DeskExplain, WhoseTimeEndsFirstGetsTheBestThereIs) {
  DeskFixture fixture;
  fixture.gate().open = false;
  TestCaller patient;
  TestCaller hasty;
  fixture.Ask(RequestOf<v1::ExplainRequest>(), patient);
  fixture.Ask(RequestOf<v1::ExplainRequest>(), hasty, Clock::now() + milliseconds(80));
  ASSERT_TRUE(hasty.AnsweredSoon());
  ASSERT_TRUE(hasty.status().ok()) << hasty.status();
  const auto response = hasty.response<v1::ExplainResponse>();
  EXPECT_EQ(response.best().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_TRUE(response.has_layout());
  EXPECT_FALSE(patient.answered());
  fixture.gate().open = true;
  ASSERT_TRUE(patient.AnsweredSoon());
  EXPECT_FALSE(Case<v1::ExplainRequest>::IsCut(patient.response<v1::ExplainResponse>()));
}

TEST(DeskExplain, ItsBestPlanCanBeReportedLongAfter) {
  DeskFixture fixture;
  const TestCaller caller = fixture.Ask(RequestOf<v1::ExplainRequest>());
  const std::string id = caller.response<v1::ExplainResponse>().best().plan().plan_id();
  const std::optional<v1::IterationReport> found = fixture.desk().FindPlan(id);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan().plan_id(), id);
  EXPECT_EQ(found->job().megatron_args_size(), SmallEvaluateRequest().job().megatron_args_size());
}

}  // namespace
}  // namespace hapmoe::server
