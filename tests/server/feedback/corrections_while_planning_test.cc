// Reports, plans, evaluations and changes of profiles at once: every answer is by one state.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/feedback/testing/feedback_fixture.h"

namespace hapmoe::server {
namespace {

constexpr int kReports = 6;

v1::EvaluateRequest OfUnit() {
  v1::EvaluateRequest request = SmallEvaluateRequest();
  *request.mutable_cluster() = ClusterOf("Unit-1", 1);
  return request;
}

// A type of which there is one report and two profiles, which are put in turn.
v1::AcceleratorProfile UnitProfile(int turn) {
  v1::AcceleratorProfile profile = RoundProfile("Unit-1");
  profile.mutable_memory()->mutable_bytes_per_second()->set_value(turn % 2 == 0 ? 3e12 : 2e12);
  return profile;
}

v1::IterationReport RunOfH800(double plain, int i) {
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.mutable_job()->add_megatron_args("--seed");
  request.mutable_job()->add_megatron_args(std::to_string(i));
  return ReportOf(request, plain * (1.1 + 0.03 * i));
}

// The answers that there may be, each by one state; bytes, so that nothing else passes.
struct Answers {
  std::set<std::string> evaluated;  // Of the H800, after each report.
  std::set<std::string> planned;
  std::set<std::string> unit;  // Of each profile, plain and corrected.
};

std::string EvaluatedOf(FeedbackFixture& fixture) {
  return fixture.Evaluate().prediction().SerializeAsString();
}
std::string PlannedOf(FeedbackFixture& fixture) {
  return fixture.Plan().prediction().SerializeAsString();
}
std::string UnitOf(FeedbackFixture& fixture) {
  return fixture.Evaluate(OfUnit()).prediction().SerializeAsString();
}

// One after the other.
Answers Expected(double plain, double plain_unit) {
  Answers answers;
  FeedbackFixture fixture;
  const auto look = [&] {
    answers.evaluated.insert(EvaluatedOf(fixture));
    answers.planned.insert(PlannedOf(fixture));
  };
  look();
  for (int i = 0; i < kReports; ++i) {
    EXPECT_TRUE(fixture.store().Report(RunOfH800(plain, i)).ok());
    look();
  }
  for (const int turn : {0, 1}) {
    EXPECT_TRUE(fixture.profiles().Put(UnitProfile(turn)).ok());
    answers.unit.insert(UnitOf(fixture));
  }
  EXPECT_TRUE(fixture.store().Report(ReportOf(OfUnit(), 1.2 * plain_unit)).ok());
  for (const int turn : {0, 1}) {
    EXPECT_TRUE(fixture.profiles().Put(UnitProfile(turn)).ok());
    (void)fixture.store().Corrections();
    answers.unit.insert(UnitOf(fixture));
  }
  return answers;
}

TEST(CorrectionsWhilePlanning, EveryAnswerIsByOneState) {
  FeedbackFixture fixture;
  const double plain = SecondsOf(fixture.Evaluate());
  ASSERT_TRUE(fixture.profiles().Put(UnitProfile(0)).ok());
  const double plain_unit = SecondsOf(fixture.Evaluate(OfUnit()));
  const Answers answers = Expected(plain, plain_unit);
  ASSERT_EQ(answers.evaluated.size(), kReports + 1u);
  ASSERT_EQ(answers.unit.size(), 4u);
  ASSERT_TRUE(fixture.store().Report(ReportOf(OfUnit(), 1.2 * plain_unit)).ok());

  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  const auto repeat = [&](auto look) {
    threads.emplace_back([&done, look]() mutable {
      do look();
      while (!done.load());
    });
  };
  repeat([&] { EXPECT_EQ(answers.evaluated.count(EvaluatedOf(fixture)), 1u); });
  repeat([&] { EXPECT_EQ(answers.planned.count(PlannedOf(fixture)), 1u); });
  repeat([&] { EXPECT_EQ(answers.unit.count(UnitOf(fixture)), 1u); });
  repeat(
      [&, turn = 0]() mutable { EXPECT_TRUE(fixture.profiles().Put(UnitProfile(++turn)).ok()); });
  repeat([&] { EXPECT_TRUE(fixture.store().List({}).ok()); });
  for (int i = 0; i < kReports; ++i) {
    const auto reported = fixture.store().Report(RunOfH800(plain, i));
    ASSERT_TRUE(reported.ok()) << reported.status();
    // Answered means shown: no earlier state from now on.
    EXPECT_EQ(fixture.Evaluate().prediction().correction().reports(), i + 1);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();

  ASSERT_TRUE(fixture.profiles().Put(UnitProfile(0)).ok());
  (void)fixture.store().Corrections();
  EXPECT_GT(SecondsOf(fixture.Evaluate(OfUnit())), 1.1 * plain_unit);
  EXPECT_EQ(fixture.Plan().prediction().correction().reports(), kReports);
}

}  // namespace
}  // namespace hapmoe::server
