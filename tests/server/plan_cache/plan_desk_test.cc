// What callers of a desk get: from memory, from one search for all, or each in its own time.
#include "server/plan_cache/plan_desk.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "tests/server/plan_cache/desk_fixture.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

v1::PlanRequest Request(const std::string& id = "") {
  v1::PlanRequest request = SmallPlanRequest();
  request.set_request_id(id);
  return request;
}

v1::PlanRequest WithPolicy(v1::CachePolicy policy, const std::string& id = "") {
  v1::PlanRequest request = Request(id);
  request.set_cache_policy(policy);
  return request;
}

TEST(PlanDesk, AnswersEqualRequestsFromMemory) {
  DeskFixture fixture;
  const TestCaller first = fixture.Ask(Request("1"));
  ASSERT_TRUE(first.status().ok()) << first.status();
  EXPECT_EQ(first.reply().source, v1::ANSWER_SOURCE_SEARCH);
  const TestCaller second = fixture.Ask(Request("2"));
  EXPECT_EQ(second.reply().source, v1::ANSWER_SOURCE_CACHE);
  EXPECT_EQ(second.reply().answer, first.reply().answer);
  // Written otherwise.
  v1::PlanRequest spelled = Request("3");
  spelled.mutable_problem()->mutable_constraints()->set_engine("megatron-lm");
  EXPECT_EQ(fixture.Ask(spelled).reply().answer, first.reply().answer);
  EXPECT_EQ(fixture.gate().started, 1);
  // Another.
  spelled.set_request_id("4");
  spelled.mutable_problem()->mutable_constraints()->set_memory_headroom_ratio(0.06);
  EXPECT_EQ(fixture.Ask(spelled).reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(fixture.gate().started, 2);
  EXPECT_EQ(fixture.listener().Of(Lookup::kHit), 2);
  EXPECT_EQ(fixture.listener().Of(Lookup::kMiss), 2);
  EXPECT_EQ(fixture.listener().searched, 2);
}

TEST(PlanDesk, AnswersFromMemoryWithoutReading) {
  DeskFixture fixture;
  const std::string bytes = Request().SerializeAsString();
  PlanWire wire;
  ASSERT_TRUE(ReadPlanWire(bytes, wire));
  EXPECT_FALSE(fixture.desk().FromMemory(AnswerKind::kPlan, wire).has_value());
  fixture.Ask(Request());
  EXPECT_TRUE(fixture.desk().FromMemory(AnswerKind::kPlan, wire).has_value());
}

TEST(PlanDesk, ThatNothingFitsIsKept) {
  DeskFixture fixture;
  fixture.gate().fits = false;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(fixture.Ask(Request("id")).status()), Reason::kNoPlanFits);
  }
  EXPECT_EQ(fixture.gate().started, 1);
}

TEST(PlanDesk, FaultsAreToldAtOnceAndNotKept) {
  DeskFixture fixture({.threads = 1, .queue = 0});  // Nothing could be searched.
  v1::PlanRequest request = Request();
  request.mutable_problem()->mutable_constraints()->add_tp(-1);
  EXPECT_EQ(ReasonOf(fixture.Ask(request).status()), Reason::kRequestInvalid);
  request = WithPolicy(static_cast<v1::CachePolicy>(99));
  const TestCaller caller = fixture.Ask(request);
  EXPECT_EQ(ViolationsOf(caller.status()).front().field, "cache_policy");
  EXPECT_EQ(fixture.desk().cache().entries(), 0u);
}

TEST(PlanDesk, PoliciesTakeAndLeave) {
  struct Case {
    v1::CachePolicy policy;
    bool takes;
    bool leaves;
  };
  for (const Case& one :
       {Case{v1::CACHE_POLICY_UNSPECIFIED, true, true}, Case{v1::CACHE_POLICY_USE, true, true},
        Case{v1::CACHE_POLICY_BYPASS_LOOKUP, false, true},
        Case{v1::CACHE_POLICY_DO_NOT_STORE, true, false},
        Case{v1::CACHE_POLICY_BYPASS, false, false}}) {
    SCOPED_TRACE(v1::CachePolicy_Name(one.policy));
    DeskFixture fixture;
    fixture.Ask(WithPolicy(one.policy));
    EXPECT_EQ(fixture.desk().cache().entries(), one.leaves ? 1u : 0u);
    const TestCaller kept = fixture.Ask(Request());
    EXPECT_EQ(fixture.Ask(WithPolicy(one.policy)).reply().source,
              one.takes ? v1::ANSWER_SOURCE_CACHE : v1::ANSWER_SOURCE_SEARCH);
    EXPECT_EQ(fixture.listener().Of(Lookup::kBypassed), one.takes ? 0 : 2);
    // What it left is in place of what was kept.
    const bool replaced = fixture.Ask(Request()).reply().answer != kept.reply().answer;
    EXPECT_EQ(replaced, !one.takes && one.leaves);
  }
}

TEST(PlanDesk, WithoutRoomSearchesAreSharedAndNothingIsKept) {
  DeskFixture fixture({.most_bytes = 0});
  fixture.Ask(Request("id"));
  EXPECT_EQ(fixture.Ask(Request("id")).reply().source, v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(fixture.gate().started, 2);
}

// Callers of one search that goes on until the gate is opened.
class SharedSearch : public ::testing::Test {
 protected:
  explicit SharedSearch(const DeskOptions& options = {}) : fixture_(options) {
    fixture_.gate().open = false;
  }
  ~SharedSearch() override { fixture_.gate().open = true; }

  // The one that begins the search, and waits without an end.
  void Lead() {
    leader_ticket_ = fixture_.Ask(Request(), leader_);
    ASSERT_TRUE(Soon([this] { return fixture_.gate().started == 1; }));
  }

  DeskFixture fixture_;
  TestCaller leader_;
  PlanDesk::Ticket leader_ticket_ = 0;
};

TEST_F(SharedSearch, OneSearchAnswersAll) {
  Lead();
  std::vector<TestCaller> callers(20);
  for (size_t i = 0; i < callers.size(); ++i) {
    fixture_.Ask(Request(std::to_string(i)), callers[i]);
    EXPECT_FALSE(callers[i].answered());
  }
  EXPECT_EQ(fixture_.desk().flights().waiting(), 21u);
  fixture_.gate().open = true;
  ASSERT_TRUE(leader_.AnsweredSoon());
  EXPECT_EQ(leader_.reply().source, v1::ANSWER_SOURCE_SEARCH);
  for (const TestCaller& caller : callers) {
    ASSERT_TRUE(caller.AnsweredSoon());
    EXPECT_EQ(caller.reply().source, v1::ANSWER_SOURCE_SHARED_SEARCH);
    EXPECT_EQ(caller.reply().answer, leader_.reply().answer);
    EXPECT_EQ(caller.answers(), 1);
  }
  EXPECT_EQ(fixture_.gate().started, 1);
  EXPECT_EQ(fixture_.listener().searched, 1);
  EXPECT_EQ(fixture_.listener().Of(Lookup::kShared), 20);
  EXPECT_EQ(fixture_.desk().flights().flying(), 0u);
}

TEST_F(SharedSearch, OthersHaveTheirOwn) {
  Lead();
  v1::PlanRequest another = Request();
  another.mutable_problem()->mutable_constraints()->add_pp(1);
  TestCaller other;
  fixture_.Ask(another, other);
  TestCaller bypass;
  fixture_.Ask(WithPolicy(v1::CACHE_POLICY_BYPASS_LOOKUP), bypass);
  EXPECT_EQ(fixture_.desk().flights().flying(), 3u);
  fixture_.gate().open = true;
  EXPECT_TRUE(leader_.AnsweredSoon() && other.AnsweredSoon() && bypass.AnsweredSoon());
  EXPECT_EQ(fixture_.gate().started, 3);
}

TEST_F(SharedSearch, GoesOnUntilNobodyWaits) {
  Lead();
  TestCaller second;
  const PlanDesk::Ticket ticket = fixture_.Ask(Request(), second);
  fixture_.Cancel(leader_, leader_ticket_);
  EXPECT_TRUE(leader_.answered());  // At once.
  EXPECT_EQ(ReasonOf(leader_.status()), Reason::kCallCancelled);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(fixture_.gate().ended, 0);
  fixture_.Cancel(second, ticket);
  EXPECT_TRUE(second.answered());
  ASSERT_TRUE(Soon([this] { return fixture_.gate().ended == 1; }));
  EXPECT_EQ(fixture_.gate().cancelled, 1);
  EXPECT_EQ(fixture_.desk().cache().entries(), 0u);
  // Whoever comes now has a search of its own.
  fixture_.gate().open = true;
  EXPECT_TRUE(fixture_.Ask(Request()).status().ok());
  EXPECT_EQ(fixture_.gate().started, 2);
}

TEST_F(SharedSearch, NobodyJoinsASearchThatIsBeingStopped) {
  Lead();
  fixture_.Cancel(leader_, leader_ticket_);
  TestCaller second;
  fixture_.Ask(Request(), second);
  fixture_.gate().open = true;
  ASSERT_TRUE(second.AnsweredSoon());
  EXPECT_TRUE(second.status().ok()) << second.status();
}

TEST_F(SharedSearch, ACallerThatWentAwayBeforeItWaitedDoesNot) {
  TestCaller caller;
  caller.interrupter().Trip(Interrupter::Cause::kCancelled);
  fixture_.Ask(Request(), caller);
  EXPECT_TRUE(caller.answered());
  EXPECT_EQ(ReasonOf(caller.status()), Reason::kCallCancelled);
  EXPECT_EQ(fixture_.gate().started, 0);
}

TEST_F(SharedSearch, WhoseTimeEndsFirstGetsWhatThereIsAndTheOthersGoOn) {
  Lead();
  TestCaller hasty;
  const auto start = Clock::now();
  fixture_.Ask(Request("hasty"), hasty, start + milliseconds(50));
  ASSERT_TRUE(hasty.AnsweredSoon());
  EXPECT_GE(Clock::now() - start, milliseconds(50));
  ASSERT_TRUE(hasty.status().ok()) << hasty.status();
  // All of an answer: a lone call would have got as much.
  const v1::PlanAnswer answer = hasty.answer();
  EXPECT_EQ(answer.termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_EQ(answer.termination().reason(), v1::Termination::REASON_INCUMBENT);
  EXPECT_GE(answer.artifacts_size(), 1);
  EXPECT_GT(answer.prediction().iteration_seconds(), 0);
  EXPECT_FALSE(leader_.answered());
  EXPECT_EQ(fixture_.gate().ended, 0);
  EXPECT_EQ(fixture_.desk().cache().entries(), 0u);  // Not for those with more time.
  fixture_.gate().open = true;
  ASSERT_TRUE(leader_.AnsweredSoon());
  EXPECT_EQ(leader_.answer().termination().reason(), v1::Termination::REASON_OPTIMAL);
  EXPECT_EQ(fixture_.gate().cut_short, 0);
  // The first answer stands for the id of whose time ended.
  EXPECT_EQ(fixture_.Ask(Request("hasty")).reply().answer, hasty.reply().answer);
  EXPECT_EQ(fixture_.Ask(Request("another")).reply().answer, leader_.reply().answer);
}

TEST_F(SharedSearch, TheLeadersTimeMayEndFirst) {
  TestCaller hasty;
  fixture_.Ask(Request(), hasty, Clock::now() + milliseconds(80));
  ASSERT_TRUE(Soon([this] { return fixture_.gate().started == 1; }));
  TestCaller patient;
  fixture_.Ask(Request(), patient);
  ASSERT_TRUE(hasty.AnsweredSoon());
  EXPECT_EQ(hasty.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_FALSE(patient.answered());
  fixture_.gate().open = true;
  ASSERT_TRUE(patient.AnsweredSoon());
  EXPECT_EQ(patient.answer().termination().reason(), v1::Termination::REASON_OPTIMAL);
}

TEST_F(SharedSearch, TheLastOneStopsTheSearchWhenItsTimeEnds) {
  TestCaller caller;
  fixture_.Ask(Request(), caller, Clock::now() + milliseconds(30));
  ASSERT_TRUE(caller.AnsweredSoon());
  EXPECT_EQ(caller.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_EQ(fixture_.gate().cut_short, 1);
  EXPECT_EQ(fixture_.desk().cache().entries(), 0u);
}

TEST_F(SharedSearch, TimeBudgetsAreEachCallersOwn) {
  Lead();
  v1::PlanRequest request = Request();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(40'000'000);
  TestCaller hasty;
  const auto start = Clock::now();
  fixture_.Ask(request, hasty);
  EXPECT_EQ(fixture_.listener().Of(Lookup::kShared), 1);
  ASSERT_TRUE(hasty.AnsweredSoon());
  EXPECT_GE(Clock::now() - start, milliseconds(40));
  EXPECT_EQ(hasty.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_FALSE(leader_.answered());
}

TEST_F(SharedSearch, WithNothingToldATimeThatEndsIsAFailure) {
  fixture_.gate().tells = false;
  Lead();
  TestCaller hasty;
  fixture_.Ask(Request(), hasty, Clock::now() + milliseconds(30));
  ASSERT_TRUE(hasty.AnsweredSoon());
  EXPECT_EQ(ReasonOf(hasty.status()), Reason::kDeadlinePassed);
  EXPECT_FALSE(leader_.answered());
}

TEST_F(SharedSearch, ATimeThatIsOverAlreadyIsAFailure) {
  TestCaller caller;
  fixture_.Ask(Request(), caller, Clock::now() - milliseconds(1));
  EXPECT_TRUE(caller.answered());
  EXPECT_EQ(ReasonOf(caller.status()), Reason::kDeadlinePassed);
}

TEST_F(SharedSearch, AProfileThatChangesMeanwhileMakesAnotherRequest) {
  Lead();
  v1::AcceleratorProfile changed = fixture_.profiles().catalog()->Find("H800")->wire;
  changed.mutable_memory()->mutable_capacity_bytes()->set_value(70e9);
  ASSERT_TRUE(fixture_.profiles().Put(changed).ok());
  TestCaller later;
  fixture_.Ask(Request(), later);
  ASSERT_TRUE(Soon([this] { return fixture_.gate().started == 2; }));
  fixture_.gate().open = true;
  ASSERT_TRUE(leader_.AnsweredSoon() && later.AnsweredSoon());
  EXPECT_NE(later.reply().answer, leader_.reply().answer);
  // Whichever was kept last, what is given is by the profile of now.
  const TestCaller now = fixture_.Ask(Request());
  EXPECT_EQ(now.answer().plan().meshes(0).stages(0).memory().budget_bytes(),
            later.answer().plan().meshes(0).stages(0).memory().budget_bytes());
  EXPECT_NE(now.answer().plan().meshes(0).stages(0).memory().budget_bytes(),
            leader_.answer().plan().meshes(0).stages(0).memory().budget_bytes());
}

TEST(PlanDesk, AChangedProfileNeverServesAnOldPlan) {
  DeskFixture fixture;
  const TestCaller before = fixture.Ask(Request("id"));
  v1::AcceleratorProfile changed = fixture.profiles().catalog()->Find("H800")->wire;
  changed.mutable_memory()->mutable_capacity_bytes()->set_value(70e9);
  ASSERT_TRUE(fixture.profiles().Put(changed).ok());
  for (const char* id : {"", "id"}) {  // Nor by the id of its request.
    const TestCaller after = fixture.Ask(Request(id));
    EXPECT_NE(after.reply().answer, before.reply().answer) << id;
  }
  EXPECT_EQ(fixture.gate().started, 2);
  // One that plans do not rest on changes nothing.
  ASSERT_TRUE(fixture.profiles().Put(RoundProfile("Unrelated")).ok());
  EXPECT_EQ(fixture.Ask(Request()).reply().source, v1::ANSWER_SOURCE_CACHE);
}

TEST(PlanDesk, QueueFullIsForAllOfAFlightAndNotKept) {
  DeskFixture fixture({.threads = 1, .queue = 0});
  const TestCaller refused = fixture.Ask(Request("id"));
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kQueueFull);
  EXPECT_EQ(fixture.desk().cache().entries(), 0u);
  EXPECT_EQ(fixture.desk().request_ids().size(), 0u);
  EXPECT_EQ(fixture.desk().flights().flying(), 0u);
}

TEST_F(SharedSearch, ACallerWhoWasAloneUntilHisTimeEndsGetsWhatThereIs) {
  TestCaller first;
  fixture_.Ask(Request(), first, Clock::now() + milliseconds(100));
  ASSERT_TRUE(Soon([this] { return fixture_.gate().started == 1; }));
  std::this_thread::sleep_for(milliseconds(50));
  fixture_.gate().tells = false;  // Nothing is told from before the other comes.
  std::this_thread::sleep_for(milliseconds(5));
  TestCaller other;
  fixture_.Ask(Request(), other);
  ASSERT_TRUE(first.AnsweredSoon());
  EXPECT_TRUE(first.status().ok()) << first.status();
  EXPECT_EQ(first.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_FALSE(other.answered());
}

class AgedSearch : public SharedSearch {
 protected:
  AgedSearch() : SharedSearch({.most_age = std::chrono::nanoseconds(0)}) {}
};

TEST_F(AgedSearch, TakesNobodyElse) {
  Lead();
  TestCaller second;
  fixture_.Ask(Request(), second);
  EXPECT_TRUE(Soon([this] { return fixture_.gate().started == 2; }));
}

class OneThread : public SharedSearch {
 protected:
  OneThread() : SharedSearch({.threads = 1}) {}
};

TEST_F(OneThread, AnswersInTimeThoughNoThreadWasFree) {
  Lead();
  v1::PlanRequest another = Request();
  another.mutable_problem()->mutable_constraints()->add_pp(1);
  TestCaller waiting;
  fixture_.Ask(another, waiting, Clock::now() + milliseconds(30));
  ASSERT_TRUE(waiting.AnsweredSoon());  // With the only thread still taken.
  EXPECT_EQ(ReasonOf(waiting.status()), Reason::kDeadlinePassed);
  EXPECT_FALSE(leader_.answered());
  fixture_.gate().open = true;
  ASSERT_TRUE(leader_.AnsweredSoon());
  EXPECT_EQ(fixture_.gate().started, 1);  // Nothing is searched that nobody waits for.
}

TEST_F(OneThread, EndsAllWhenToldTo) {
  Lead();
  TestCaller shares;
  fixture_.Ask(Request(), shares);
  v1::PlanRequest another = Request();
  another.mutable_problem()->mutable_constraints()->add_pp(1);
  TestCaller waits;
  fixture_.Ask(another, waits);
  fixture_.desk().EndAll();
  ASSERT_TRUE(leader_.AnsweredSoon() && shares.AnsweredSoon() && waits.AnsweredSoon());
  EXPECT_EQ(leader_.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_TRUE(shares.status().ok());
  EXPECT_EQ(ReasonOf(waits.status()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(fixture_.Ask(Request()).status()), Reason::kDraining);
}

// Pools end after the desk, and answers use them.
TEST_F(OneThread, EndsAfterTheAnswersItIsGiving) {
  Lead();
  v1::PlanRequest another = Request();
  another.mutable_problem()->mutable_constraints()->add_pp(1);
  std::atomic<bool> answering{false};
  std::atomic<bool> may_return{false};
  TestCaller late;
  PlanDesk::Caller caller = late.Make(Clock::now() + milliseconds(30));
  caller.answer = [&](const PlanReply&) {
    answering = true;
    Soon([&] { return may_return.load(); });
  };
  fixture_.desk().Ask(fixture_.desk().NewTicket(), another, another.SerializeAsString(),
                      std::move(caller));
  ASSERT_TRUE(Soon([&] { return answering.load(); }));
  fixture_.gate().open = true;
  ASSERT_TRUE(leader_.AnsweredSoon());
  std::atomic<bool> ended{false};
  std::thread end([&] {
    fixture_.EndDesk();
    ended = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(ended);
  may_return = true;
  end.join();
}

TEST(RequestIdsOfTheDesk, AnotherRequestWithTheIdIsRefused) {
  DeskFixture fixture;
  fixture.Ask(Request("id"));
  v1::PlanRequest other = Request("id");
  other.mutable_problem()->mutable_constraints()->add_pp(1);
  for (int i = 0; i < 2; ++i) {  // Also when its answer is in memory.
    const TestCaller caller = fixture.Ask(other);
    ASSERT_EQ(ReasonOf(caller.status()), Reason::kRequestInvalid);
    EXPECT_EQ(ViolationsOf(caller.status()).front().field, "request_id");
    v1::PlanRequest unnamed = other;
    unnamed.clear_request_id();
    fixture.Ask(unnamed);
  }
}

TEST(RequestIdsOfTheDesk, AFailureLeavesTheIdFree) {
  DeskFixture fixture;
  fixture.gate().fits = false;
  for (int i = 0; i < 2; ++i) {  // Also when it is kept.
    EXPECT_EQ(ReasonOf(fixture.Ask(Request("id")).status()), Reason::kNoPlanFits);
  }
  EXPECT_EQ(fixture.desk().request_ids().size(), 0u);
  fixture.gate().fits = true;
  v1::PlanRequest larger = Request("id");
  larger.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_nodes(2);
  EXPECT_TRUE(fixture.Ask(larger).status().ok());
}

TEST(RequestIdsOfTheDesk, ARetryOfACallThatWasCutJoinsItsSearch) {
  DeskFixture fixture;
  fixture.gate().open = false;
  TestCaller other;
  fixture.Ask(Request("other"), other);  // Keeps the search going.
  TestCaller cut;
  const PlanDesk::Ticket ticket = fixture.Ask(Request("id"), cut);
  fixture.Cancel(cut, ticket);
  TestCaller retry;
  fixture.Ask(Request("id"), retry);
  fixture.gate().open = true;
  ASSERT_TRUE(retry.AnsweredSoon());
  EXPECT_TRUE(retry.status().ok());
  EXPECT_EQ(fixture.gate().started, 1);
}

TEST(FindPlan, KnowsThePlansOfAnswersThatAreKept) {
  DeskFixture fixture;
  const v1::PlanAnswer answer = fixture.Ask(Request()).answer();
  const auto ran = fixture.desk().FindPlan(answer.plan().plan_id());
  ASSERT_TRUE(ran.has_value());
  EXPECT_EQ(ran->plan().SerializeAsString(), answer.plan().SerializeAsString());
  EXPECT_EQ(ran->cluster().pools(0).accelerator(), "H800");
  EXPECT_EQ(ran->job().megatron_args_size(), Request().problem().job().megatron_args_size());
  EXPECT_FALSE(fixture.desk().FindPlan("none").has_value());
}

TEST(OwnSearch, TakesAndLeavesAnswersAsOthersDo) {
  DeskFixture fixture;
  PlanDesk::Opened opened = fixture.desk().Open(Request("id"), "");
  ASSERT_EQ(opened.reply, std::nullopt);
  const auto interrupter = std::make_shared<Interrupter>();
  const KeptAnswerPtr answer = fixture.desk().Search(*opened.order, interrupter, nullptr);
  ASSERT_TRUE(answer->status.ok());
  EXPECT_EQ(fixture.Ask(Request()).reply().answer, answer);
  EXPECT_EQ(fixture.desk().Open(Request("id"), "").reply->answer, answer);
  // One that was cut short stands for its id alone.
  v1::PlanRequest another = Request("cut");
  another.mutable_problem()->mutable_constraints()->add_pp(1);
  opened = fixture.desk().Open(another, "");
  const auto tripped = std::make_shared<Interrupter>();
  tripped->Trip(Interrupter::Cause::kTime);
  const KeptAnswerPtr cut = fixture.desk().Search(*opened.order, tripped, nullptr);
  EXPECT_EQ(fixture.desk().cache().entries(), 1u);
  EXPECT_EQ(fixture.desk().Open(another, "").reply->answer, cut);
}

}  // namespace
}  // namespace hapmoe::server
