#include "server/feedback/feedback_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/errors/errors.h"
#include "tests/server/feedback/testing/feedback_fixture.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

using Fixture = FeedbackFixture;

// Past the store, as a later or a faulty program might.
absl::Status Write(RecordStorage& storage, const std::string& name, const std::string& content) {
  RecordBatch batch;
  batch.kind = RecordKind::kReport;
  batch.changes.push_back({name, content});
  return storage.Apply(batch).status();
}

bool Holds(RecordStorage& storage, const std::string& name) {
  const RecordContents contents = storage.Load(RecordKind::kReport, 0).value();
  return std::any_of(contents.records.begin(), contents.records.end(), [&](const auto& record) {
    return record.key == name && record.content.has_value();
  });
}

TEST(FeedbackStore, AReportCorrectsPredictionsAndItsDeletionTakesThatBack) {
  Fixture fixture;
  const v1::EvaluateResponse before = fixture.Evaluate();
  EXPECT_FALSE(before.prediction().has_correction());
  const double seconds = 1.2 * SecondsOf(before);
  const auto reported = fixture.store().Report(ReportOf(SmallEvaluateRequest(), seconds));
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->response.predicted_before_seconds(), SecondsOf(before));
  EXPECT_THAT(reported->accelerators, ::testing::ElementsAre("H800-SXM"));

  const v1::EvaluateResponse after = fixture.Evaluate();
  EXPECT_NEAR(SecondsOf(after) / seconds, 1, 0.06);
  EXPECT_NEAR(SecondsOf(after), reported->response.stored().corrected_seconds(), 1e-9);
  EXPECT_EQ(after.prediction().correction().reports(), 1);
  EXPECT_NEAR(after.prediction().correction().uncorrected_iteration_seconds(), SecondsOf(before),
              1e-9);
  const auto width = [](const v1::Prediction& p) {
    return p.high_iteration_seconds() / p.low_iteration_seconds();
  };
  EXPECT_LT(width(after.prediction()), width(before.prediction()));
  EXPECT_THAT(after.prediction().assumptions(), Contains(::testing::HasSubstr("H800-SXM correct")));

  ASSERT_TRUE(fixture.store().Delete(reported->response.stored().name()).ok());
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(ReasonOf(fixture.store().Delete("r0")), Reason::kReportNotFound);
}

TEST(FeedbackStore, SearchesPlanWithCorrectedCosts) {
  Fixture fixture;
  const v1::PlanAnswer before = fixture.Plan();
  v1::IterationReport report;
  report.set_plan_id(before.plan().plan_id());
  report.set_iteration_seconds(1.3 * before.prediction().iteration_seconds());
  ASSERT_TRUE(fixture.store().Report(report).ok());
  // The certificate of the answer is checked against the corrected costs on the way.
  const v1::PlanAnswer after = fixture.Plan();
  EXPECT_GT(after.prediction().iteration_seconds(), 1.1 * before.prediction().iteration_seconds());
  EXPECT_LE(after.termination().lower_bound_seconds(),
            after.prediction().iteration_seconds() * (1 + 1e-9));
  EXPECT_EQ(after.termination().reason(), before.termination().reason());
  EXPECT_EQ(after.prediction().correction().reports(), 1);
}

TEST(FeedbackStore, TakesThePlanItselfWhereItIsNotKnownAnyMore) {
  v1::PlanAnswer answer;
  {
    Fixture planned;
    answer = planned.Plan();
  }
  Fixture fixture;
  v1::IterationReport report;
  report.set_plan_id(answer.plan().plan_id());
  report.set_iteration_seconds(answer.prediction().iteration_seconds());
  EXPECT_EQ(ReasonOf(fixture.store().Report(report).status()), Reason::kPlanNotKnown);
  *report.mutable_job() = SmallPlanRequest().problem().job();
  *report.mutable_cluster() = SmallPlanRequest().problem().cluster();
  *report.mutable_plan() = answer.plan();
  const auto reported = fixture.store().Report(report);
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_NEAR(reported->response.stored().predicted_seconds(),
              answer.prediction().iteration_seconds(), 1e-9);
  // As predicted: nothing is corrected.
  EXPECT_NEAR(reported->response.stored().corrected_seconds(),
              answer.prediction().iteration_seconds(), 1e-9);
}

TEST(FeedbackStore, TakesAPlanThatChoseItsDispatcher) {
  Fixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Problem& problem = *request.mutable_problem();
  for (const char* argument : {"--num-experts", "8", "--moe-grouped-gemm"}) {
    problem.mutable_job()->add_megatron_args(argument);
  }
  problem.mutable_constraints()->add_ep(2);
  problem.mutable_constraints()->add_token_dispatcher("alltoall");
  const v1::PlanAnswer answer = fixture.Plan(request);
  ASSERT_EQ(answer.plan().token_dispatcher(), "alltoall");
  v1::IterationReport report;
  *report.mutable_job() = problem.job();
  *report.mutable_cluster() = problem.cluster();
  *report.mutable_plan() = answer.plan();
  report.set_iteration_seconds(answer.prediction().iteration_seconds());
  const auto reported = fixture.store().Report(report);
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_NEAR(reported->response.predicted_before_seconds(), report.iteration_seconds(), 1e-12);
  report.mutable_plan()->set_token_dispatcher("any");
  EXPECT_EQ(ReasonOf(fixture.store().Report(report).status()), Reason::kRequestInvalid);
}

TEST(FeedbackStore, ReportsSurviveARestart) {
  const auto storage = std::make_shared<MemoryStorage>();
  std::string corrected;
  std::string name;
  {
    Fixture fixture(storage);
    const double seconds = 1.2 * SecondsOf(fixture.Evaluate());
    name = fixture.store()
               .Report(ReportOf(SmallEvaluateRequest(), seconds))
               .value()
               .response.stored()
               .name();
    corrected = fixture.Evaluate().SerializeAsString();
  }
  ASSERT_TRUE(Write(*storage, "broken", "").ok());
  Fixture fixture(storage);
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), corrected);
  EXPECT_EQ(fixture.store().faults().size(), 1u);
  ASSERT_TRUE(fixture.store().Delete(name).ok());
  EXPECT_FALSE(Holds(*storage, name));
}

TEST(FeedbackStore, KeepsTheLatestOfEachTypeAndNoneForEver) {
  Fixture fixture(std::make_shared<MemoryStorage>(), /*most_of_type=*/3);
  const double seconds = SecondsOf(fixture.Evaluate());
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) {
    v1::EvaluateRequest request = SmallEvaluateRequest();
    request.mutable_job()->add_megatron_args("--seed");
    request.mutable_job()->add_megatron_args(std::to_string(i));
    fixture.Pass(absl::Hours(24));
    names.push_back(fixture.store()
                        .Report(ReportOf(request, seconds * (1 + 0.02 * i)))
                        .value()
                        .response.stored()
                        .name());
  }
  const auto list = [&] {
    std::vector<std::string> listed;
    v1::ListReportsRequest request;
    request.set_page_size(2);
    do {
      const v1::ListReportsResponse page = fixture.store().List(request).value();
      for (const v1::StoredReport& report : page.reports()) listed.push_back(report.name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return listed;
  };
  EXPECT_EQ(list(), std::vector<std::string>(names.begin() + 2, names.end()));
  fixture.Pass(kMostReportAge - absl::Hours(12));
  EXPECT_EQ(list(), std::vector<std::string>(names.begin() + 4, names.end()));
  fixture.Pass(absl::Hours(48));
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_EQ(SecondsOf(fixture.Evaluate()), seconds);
}

TEST(FeedbackStore, ReadsReportsAgainWhereAProfileChanges) {
  Fixture fixture;
  v1::AcceleratorProfile profile = RoundProfile("Unit-1");
  EXPECT_TRUE(fixture.profiles().Put(profile).ok());
  v1::EvaluateRequest request = SmallEvaluateRequest();
  *request.mutable_cluster() = ClusterOf("Unit-1", 1);
  const double seconds = SecondsOf(fixture.Evaluate(request));
  ASSERT_TRUE(fixture.store().Report(ReportOf(request, 1.2 * seconds)).ok());
  EXPECT_GT(SecondsOf(fixture.Evaluate(request)), 1.1 * seconds);
  EXPECT_TRUE(fixture.profiles().Delete("Unit-1").ok());
  EXPECT_THAT(fixture.store().Corrections().corrections(), IsEmpty());
  EXPECT_TRUE(fixture.profiles().Put(profile).ok());
  EXPECT_EQ(fixture.store().Corrections().corrections_size(), 1);  // Waits for the fit.
  EXPECT_GT(SecondsOf(fixture.Evaluate(request)), 1.1 * seconds);
}

struct Malformed {
  const char* name;
  std::function<void(v1::IterationReport&)> change;
  const char* rule;
  const char* field;
};

class MalformedReport : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedReport, IsRefusedWithTheFieldAtFault) {
  Fixture fixture;
  const v1::PlanAnswer answer = fixture.Plan();
  v1::IterationReport report;
  *report.mutable_job() = SmallPlanRequest().problem().job();
  *report.mutable_cluster() = SmallPlanRequest().problem().cluster();
  *report.mutable_plan() = answer.plan();
  report.set_iteration_seconds(answer.prediction().iteration_seconds());
  GetParam().change(report);
  const absl::Status status = fixture.store().Report(report).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  bool told = false;
  for (const Violation& violation : ViolationsOf(status)) {
    told |= violation.rule == GetParam().rule && violation.field == GetParam().field;
  }
  EXPECT_TRUE(told) << status;
  EXPECT_THAT(fixture.store().List({})->reports(), IsEmpty());
}

// Changes a plan under the digest that it then has.
void Renamed(v1::IterationReport& report) { report.mutable_plan()->clear_plan_id(); }

// Makes the job's own layout run, of SmallJob with a batch of 2^20 and 8 stages: 2^23 passes.
void RunOwnLayout(v1::IterationReport& report) {
  report.clear_plan();
  v1::Job& job = *report.mutable_job();
  for (std::string& argument : *job.mutable_megatron_args()) {
    if (argument == "64") argument = "1048576";
  }
  job.add_megatron_args("--pipeline-model-parallel-size");
  job.add_megatron_args("8");
}

INSTANTIATE_TEST_SUITE_P(
    Reports, MalformedReport,
    ::testing::Values(
        Malformed{"NoTime", [](auto& r) { r.clear_iteration_seconds(); }, "seconds_positive",
                  "report.iteration_seconds"},
        Malformed{"NegativeTime", [](auto& r) { r.set_iteration_seconds(-1); }, "seconds_positive",
                  "report.iteration_seconds"},
        Malformed{"TimeIsNoNumber", [](auto& r) { r.set_iteration_seconds(std::nan("")); },
                  "seconds_positive", "report.iteration_seconds"},
        Malformed{"EndlessTime",
                  [](auto& r) { r.set_iteration_seconds(std::numeric_limits<double>::infinity()); },
                  "seconds_positive", "report.iteration_seconds"},
        Malformed{"AMillionTimesTooLong",
                  [](auto& r) { r.set_iteration_seconds(1e6 * r.iteration_seconds()); },
                  "seconds_plausible", "report.iteration_seconds"},
        Malformed{"Microseconds",
                  [](auto& r) { r.set_iteration_seconds(1e-6 * r.iteration_seconds()); },
                  "seconds_plausible", "report.iteration_seconds"},
        Malformed{"NegativeMemory", [](auto& r) { r.set_allocated_memory_bytes(-1); },
                  "memory_not_negative", "report.allocated_memory_bytes"},
        Malformed{"MoreMemoryThanThereIs",
                  [](auto& r) { r.set_reserved_memory_bytes(int64_t{1} << 50); },
                  "memory_within_device", "report.reserved_memory_bytes"},
        Malformed{"MoreAllocatedThanReserved",
                  [](auto& r) {
                    r.set_allocated_memory_bytes(2);
                    r.set_reserved_memory_bytes(1);
                  },
                  "allocated_within_reserved", "report.allocated_memory_bytes"},
        Malformed{"ImbalanceBelowOne", [](auto& r) { r.set_load_imbalance(0.5); },
                  "imbalance_at_least_1", "report.load_imbalance"},
        Malformed{"ImbalanceWithoutExperts", [](auto& r) { r.set_load_imbalance(1.5); },
                  "imbalance_needs_experts", "report.load_imbalance"},
        Malformed{"Tomorrow", [](auto& r) { r.mutable_measured_at()->set_seconds(1'900'000'000); },
                  "time_in_range", "report.measured_at"},
        Malformed{"AnotherPlanId", [](auto& r) { r.set_plan_id("123"); }, "plan_id_matches",
                  "report.plan_id"},
        Malformed{"AChangedPlan", [](auto& r) { r.mutable_plan()->mutable_meshes(0)->set_tp(3); },
                  "plan_id_matches", "report.plan.plan_id"},
        Malformed{"DegreesThatDoNotFit",
                  [](auto& r) {
                    r.mutable_plan()->mutable_meshes(0)->set_tp(3);
                    Renamed(r);
                  },
                  "plan_valid", "report.plan"},
        Malformed{"DegreesWithoutEnd",
                  [](auto& r) {
                    r.mutable_plan()->mutable_meshes(0)->set_dp(2'000'000'000);
                    Renamed(r);
                  },
                  "plan_figure_in_range", "report.plan.meshes[0].dp"},
        Malformed{"MoreRanksThanNumbersCanSay",
                  [](auto& r) {
                    v1::Mesh& mesh = *r.mutable_plan()->mutable_meshes(0);
                    const v1::Stage stage = mesh.stages(0);
                    while (mesh.stages_size() < 32768) *mesh.add_stages() = stage;
                    mesh.set_tp(65536);
                    mesh.set_cp(65536);
                    mesh.set_dp(65536);
                    Renamed(r);
                  },
                  "plan_valid", "report.plan"},
        Malformed{"MorePassesThanAreFitted", RunOwnLayout, "passes_in_range",
                  "--global-batch-size"},
        Malformed{"MorePassesThanAreSimulated",
                  [](auto& r) {
                    RunOwnLayout(r);
                    r.mutable_job()->add_megatron_args("--pipeline-model-parallel-layout");
                    r.mutable_job()->add_megatron_args("Et(|t)*7(|)*24L");  // 2^25.
                  },
                  "passes_in_range", "--global-batch-size"},
        Malformed{"AnUnknownPool",
                  [](auto& r) {
                    r.mutable_plan()->mutable_meshes(0)->set_pool("other");
                    Renamed(r);
                  },
                  "plan_pool_known", "report.plan.meshes[0].pool"},
        Malformed{"NoMeshes",
                  [](auto& r) {
                    r.mutable_plan()->clear_meshes();
                    Renamed(r);
                  },
                  "plan_has_meshes", "report.plan.meshes"},
        Malformed{"AnotherModelsPlan",
                  [](auto& r) {
                    r.mutable_job()->set_megatron_args(1, "12");  // --num-layers
                  },
                  "plan_valid", "report.plan"},
        Malformed{"NoCluster", [](auto& r) { r.clear_cluster(); }, "cluster_pools_in_range",
                  "report.cluster.pools"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(FeedbackStore, TellsAllFaultsAtOnce) {
  Fixture fixture;
  v1::IterationReport report = ReportOf(SmallEvaluateRequest(), -1);
  report.set_allocated_memory_bytes(-1);
  report.clear_cluster();
  EXPECT_GE(ViolationsOf(fixture.store().Report(report).status()).size(), 3u);
}

TEST(FeedbackStore, MeasuredImbalanceIsNotBlamedOnTheAccelerator) {
  Fixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  for (const char* argument :
       {"--num-experts", "8", "--moe-router-topk", "2", "--expert-model-parallel-size", "4",
        "--expert-tensor-parallel-size", "1", "--moe-grouped-gemm", "--moe-token-dispatcher-type",
        "alltoall", "--sequence-parallel"}) {
    request.mutable_job()->add_megatron_args(argument);
  }
  request.mutable_job()->set_megatron_args(3, "8192");   // --hidden-size: no waiting for the host.
  request.mutable_job()->set_megatron_args(5, "16384");  // --ffn-hidden-size
  request.mutable_job()->set_megatron_args(7, "64");     // --num-attention-heads
  const double seconds = 1.15 * SecondsOf(fixture.Evaluate(request));
  const auto predicted = [&](double rho) {
    v1::IterationReport report = ReportOf(request, seconds);
    report.set_load_imbalance(rho);
    const auto reported = fixture.store().Report(report);
    EXPECT_TRUE(reported.ok()) << reported.status();
    EXPECT_TRUE(fixture.store().Delete(reported->response.stored().name()).ok());
    return reported->response.stored().predicted_seconds();
  };
  EXPECT_GT(predicted(2), predicted(1));
  v1::IterationReport report = ReportOf(request, seconds);
  for (const double more_than_experts : {8.5, 1e300}) {
    report.set_load_imbalance(more_than_experts);
    const absl::Status status = fixture.store().Report(report).status();
    ASSERT_EQ(ViolationsOf(status).size(), 1u) << status;
    EXPECT_EQ(ViolationsOf(status)[0].rule, "imbalance_within_experts");
  }
}

TEST(FeedbackStore, AnIdWithAJobNamesThePlanThatRan) {
  Fixture fixture;
  const v1::PlanAnswer answer = fixture.Plan();
  const std::string layout = fixture.Evaluate().plan().plan_id();
  v1::IterationReport report = ReportOf(SmallEvaluateRequest(), 0);
  report.set_plan_id(answer.plan().plan_id());
  report.set_iteration_seconds(answer.prediction().iteration_seconds());
  const auto planned = fixture.store().Report(report);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->response.stored().report().plan().plan_id(), answer.plan().plan_id());
  report.set_world_size(answer.plan().world_size() / 2);  // Of another plan.
  EXPECT_EQ(ReasonOf(fixture.store().Report(report).status()), Reason::kRequestInvalid);
  report.clear_world_size();
  report.set_plan_id("0123");
  EXPECT_EQ(ReasonOf(fixture.store().Report(report).status()), Reason::kPlanNotKnown);
  // The id of a job's own layout is known wherever the job is given.
  Fixture restarted;
  report.set_plan_id(layout);
  const auto own = restarted.store().Report(report);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_FALSE(own->response.stored().report().has_plan());
}

TEST(FeedbackStore, TheUniformPlanIsKnown) {
  Fixture fixture;
  const v1::PlanAnswer answer = fixture.Plan();
  ASSERT_TRUE(answer.has_uniform());
  v1::IterationReport report;
  report.set_plan_id(answer.uniform().plan().plan_id());
  report.set_iteration_seconds(answer.uniform().prediction().iteration_seconds());
  EXPECT_TRUE(fixture.store().Report(report).ok());
}

TEST(FeedbackStore, ARunIsWhatRanAndNotWhatWasPredicted) {
  Fixture fixture;
  int kept = 0;
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    // Every report changes what is predicted, and with it the plan's id.
    const v1::EvaluateResponse response = fixture.Evaluate();
    v1::IterationReport report = ReportOf(SmallEvaluateRequest(), (1.1 + 0.01 * i));
    report.set_iteration_seconds(report.iteration_seconds() * SecondsOf(response));
    *report.mutable_plan() = response.plan();
    const auto reported = fixture.store().Report(report);
    ASSERT_TRUE(reported.ok()) << reported.status();
    ids.insert(response.plan().plan_id());
    kept = fixture.store().List({})->reports_size();
  }
  EXPECT_GT(ids.size(), 8u);
  EXPECT_EQ(kept, 8);
}

TEST(FeedbackStore, KeepsReportsOfProfilesThatAreMissing) {
  const auto storage = std::make_shared<MemoryStorage>();
  const auto records = [&] { return storage->Load(RecordKind::kReport, 0)->records.size(); };
  {
    Fixture fixture(storage, /*most_of_type=*/2);
    for (const char* name : {"Unit-1", "Unit-2", "Unit-3"}) {
      ASSERT_TRUE(fixture.profiles().Put(RoundProfile(name)).ok());
      v1::EvaluateRequest request = SmallEvaluateRequest();
      *request.mutable_cluster() = ClusterOf(name, 1);
      const double seconds = SecondsOf(fixture.Evaluate(request));
      ASSERT_TRUE(fixture.store().Report(ReportOf(request, 1.2 * seconds)).ok());
    }
    EXPECT_EQ(records(), 3u);
  }
  // The types are of no profile now; reports of others come and go.
  Fixture fixture(storage, /*most_of_type=*/2);
  EXPECT_EQ(records(), 3u);
  const double seconds = SecondsOf(fixture.Evaluate());
  ASSERT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), seconds)).ok());
  EXPECT_EQ(records(), 4u);
  EXPECT_EQ(fixture.store().List({})->reports_size(), 4);
}

TEST(FeedbackStore, TakesInWhatAnotherServerReported) {
  const auto storage = std::make_shared<MemoryStorage>();
  Fixture one(storage);
  Fixture other(storage);
  const double plain = SecondsOf(one.Evaluate());
  std::vector<std::string> names;
  for (Fixture* fixture : {&one, &other, &one}) {  // The clocks agree: so would the names.
    const auto reported = fixture->store().Report(ReportOf(SmallEvaluateRequest(), 1.2 * plain));
    ASSERT_TRUE(reported.ok()) << reported.status();
    names.push_back(reported->response.stored().name());
  }
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 3u);
  EXPECT_THAT(other.store().Refresh().value(), IsEmpty());
  EXPECT_EQ(other.store().List({})->reports_size(), 3);
  EXPECT_EQ(SecondsOf(other.Evaluate()), SecondsOf(one.Evaluate()));
  for (const std::string& name : names) ASSERT_TRUE(other.store().Delete(name).ok());
  EXPECT_THAT(one.store().Refresh().value(), IsEmpty());
  EXPECT_EQ(one.store().List({})->reports_size(), 0);
  EXPECT_EQ(SecondsOf(one.Evaluate()), plain);
}

// A clock that jumps back gives no name twice, nor one out of order.
TEST(FeedbackStore, NamesGrowWhenTheClockJumps) {
  Fixture fixture;
  const double plain = SecondsOf(fixture.Evaluate());
  std::string last;
  for (const int hours : {0, -48, 24, -1, 72}) {
    fixture.Pass(absl::Hours(hours));
    const auto reported = fixture.store().Report(ReportOf(SmallEvaluateRequest(), plain));
    ASSERT_TRUE(reported.ok()) << reported.status();
    EXPECT_GT(reported->response.stored().name(), last);
    last = reported->response.stored().name();
  }
  EXPECT_EQ(fixture.store().List({})->reports_size(), 5);
}

FeedbackStore::TimePoint Now() { return std::chrono::steady_clock::now(); }

TEST(FeedbackStore, PredictsByWhatHoldsWhileAFitRuns) {
  Fixture fixture;
  const double plain = SecondsOf(fixture.Evaluate());
  ASSERT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.1 * plain)).ok());
  const v1::EvaluateResponse before = fixture.Evaluate();
  fixture.fits().Close();
  // Its time is over: it is stored and listed, and its correction follows.
  const auto reported =
      fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.3 * plain), Now());
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_TRUE(reported->response.fit_pending());
  EXPECT_EQ(reported->response.stored().predicted_seconds(), plain);
  EXPECT_EQ(reported->response.stored().corrected_seconds(), SecondsOf(before));
  const v1::ListReportsResponse list = fixture.store().List({}, Now()).value();
  ASSERT_EQ(list.reports_size(), 2);
  EXPECT_GT(list.reports(0).corrected_seconds(), 0);
  EXPECT_EQ(list.reports(1).name(), reported->response.stored().name());
  EXPECT_EQ(list.reports(1).corrected_seconds(), 0);
  fixture.fits().AwaitHeld();
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), before.SerializeAsString());
  fixture.Pass(absl::Hours(24));
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(fixture.store().Corrections(Now()).corrections(0).reports(), 1);

  fixture.fits().Open();
  EXPECT_EQ(fixture.store().Corrections().corrections(0).reports(), 2);
  EXPECT_EQ(fixture.Evaluate().prediction().correction().reports(), 2);
  EXPECT_GT(fixture.store().List({})->reports(1).corrected_seconds(), 1.05 * plain);
}

TEST(FeedbackStore, OneFitTakesAllReportsThatWaitForIt) {
  Fixture fixture;
  const double plain = SecondsOf(fixture.Evaluate());
  fixture.fits().Close();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.1 * plain), Now()).ok());
    if (i == 0) fixture.fits().AwaitHeld();
  }
  fixture.fits().Open();
  EXPECT_EQ(fixture.store().Corrections().corrections(0).reports(), 5);
  EXPECT_EQ(fixture.fits().passed(), 2);  // That of the first report, and that of all.
  const auto last = fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.1 * plain));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_FALSE(last->response.fit_pending());
  EXPECT_EQ(fixture.Evaluate().prediction().correction().reports(), 6);
}

TEST(FeedbackStore, AChangedProfileIsPlainUntilItIsFittedAndOthersStayAsTheyAre) {
  Fixture fixture;
  v1::AcceleratorProfile profile = RoundProfile("Unit-1");
  ASSERT_TRUE(fixture.profiles().Put(profile).ok());
  v1::EvaluateRequest of_unit = SmallEvaluateRequest();
  *of_unit.mutable_cluster() = ClusterOf("Unit-1", 1);
  const double plain = SecondsOf(fixture.Evaluate(of_unit));
  ASSERT_TRUE(fixture.store().Report(ReportOf(of_unit, 1.2 * plain)).ok());
  ASSERT_TRUE(fixture.store()
                  .Report(ReportOf(SmallEvaluateRequest(), 1.2 * SecondsOf(fixture.Evaluate())))
                  .ok());
  const v1::EvaluateResponse other = fixture.Evaluate();
  fixture.fits().Close();
  ASSERT_TRUE(fixture.profiles().Put(profile).ok());
  EXPECT_EQ(SecondsOf(fixture.Evaluate(of_unit)), plain);
  fixture.fits().AwaitHeld();  // Who saw that it is needed asked for a fit, and did not wait.
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), other.SerializeAsString());
  fixture.fits().Open();
  EXPECT_EQ(fixture.store().Corrections().corrections_size(), 2);
  EXPECT_GT(SecondsOf(fixture.Evaluate(of_unit)), 1.1 * plain);
  EXPECT_EQ(fixture.Evaluate().SerializeAsString(), other.SerializeAsString());
}

TEST(FeedbackStore, AServerThatEndsLetsNobodyWait) {
  Fixture fixture;
  const double plain = SecondsOf(fixture.Evaluate());
  fixture.fits().Close();
  std::thread ending([&] {
    fixture.fits().AwaitHeld();
    fixture.store().EndWaits();
  });
  const auto reported = fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.1 * plain));
  ending.join();
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_TRUE(reported->response.fit_pending());
}

// A storage whose disk is slow.
class SlowStorage : public MemoryStorage {
 public:
  explicit SlowStorage(Gate& writes) : writes_(writes) {}
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override {
    writes_.Pass();
    return MemoryStorage::Apply(batch);
  }

 private:
  Gate& writes_;
};

TEST(FeedbackStore, PredictionsDoNotWaitForTheDisk) {
  Gate writes;
  Fixture fixture(std::make_shared<SlowStorage>(writes));
  const double plain = SecondsOf(fixture.Evaluate());
  writes.Close();
  std::thread reporter([&] {
    EXPECT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), 1.2 * plain)).ok());
  });
  writes.AwaitHeld();
  fixture.Pass(absl::Hours(24));
  EXPECT_EQ(SecondsOf(fixture.Evaluate()), plain);
  writes.Open();
  reporter.join();
  EXPECT_GT(SecondsOf(fixture.Evaluate()), 1.1 * plain);
}

struct Impossible {
  const char* name;
  std::function<void(v1::IterationReport&)> change;
};

class ImpossibleRecord : public ::testing::TestWithParam<Impossible> {};

TEST_P(ImpossibleRecord, IsRefusedWhenItIsLoadedAndLeftWhereItIs) {
  const auto storage = std::make_shared<MemoryStorage>();
  double seconds = 0;
  {
    Fixture fixture(storage);
    seconds = SecondsOf(fixture.Evaluate());
    ASSERT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), seconds)).ok());
    v1::StoredReport record = fixture.store().List({})->reports(0);
    GetParam().change(*record.mutable_report());
    ASSERT_TRUE(Write(*storage, "r0000000000000001", record.report().SerializeAsString()).ok());
  }
  Fixture fixture(storage);
  ASSERT_EQ(fixture.store().faults().size(), 1u);
  EXPECT_EQ(fixture.store().faults()[0].source, "r0000000000000001");
  EXPECT_THAT(fixture.store().faults()[0].message, ::testing::StartsWith("report."));
  EXPECT_EQ(fixture.store().List({})->reports_size(), 1);
  ASSERT_TRUE(fixture.store().Report(ReportOf(SmallEvaluateRequest(), seconds)).ok());
  EXPECT_TRUE(Holds(*storage, "r0000000000000001"));
}

INSTANTIATE_TEST_SUITE_P(
    Records, ImpossibleRecord,
    ::testing::Values(
        Impossible{"NoNumber", [](auto& r) { r.set_iteration_seconds(std::nan("")); }},
        Impossible{"Negative", [](auto& r) { r.set_iteration_seconds(-1); }},
        Impossible{"NoTime", [](auto& r) { r.clear_iteration_seconds(); }},
        Impossible{"NegativeMemory", [](auto& r) { r.set_reserved_memory_bytes(-1); }},
        Impossible{"ImbalanceIsNoNumber", [](auto& r) { r.set_load_imbalance(std::nan("")); }},
        Impossible{"Tomorrow",
                   [](auto& r) { r.mutable_measured_at()->set_seconds(1'900'000'000); }}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(FeedbackStore, ReportsWhilePredictionsAreMade) {
  Fixture fixture;
  const double seconds = SecondsOf(fixture.Evaluate());
  std::thread reporter([&] {
    for (int i = 0; i < 20; ++i) {
      const auto reported =
          fixture.store().Report(ReportOf(SmallEvaluateRequest(), seconds * (1.1 + 0.001 * i)));
      ASSERT_TRUE(reported.ok()) << reported.status();
      if (i % 3 == 0) {
        ASSERT_TRUE(fixture.store().Delete(reported->response.stored().name()).ok());
      }
    }
  });
  for (int i = 0; i < 50; ++i) {
    const double now = SecondsOf(fixture.Evaluate());
    EXPECT_GE(now, seconds * (1 - 1e-12));
    EXPECT_LE(now, 1.13 * seconds);
  }
  reporter.join();
}

}  // namespace
}  // namespace hapmoe::server
