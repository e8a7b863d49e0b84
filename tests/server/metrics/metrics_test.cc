#include "server/metrics/metrics.h"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/errors/errors.h"
#include "server/metrics/process_metrics.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<prometheus::MetricFamily> Collect(const Metrics& metrics) {
  std::vector<prometheus::MetricFamily> all;
  for (const auto& collectable : metrics.collectables()) {
    for (auto& family : collectable->Collect()) all.push_back(family);
  }
  return all;
}

std::string Text(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(Collect(metrics));
}

TEST(Metrics, NamesHaveOurPrefixAndHelp) {
  std::set<std::string> names;
  for (const auto& family : Collect(Metrics("1.0", "abc"))) {
    EXPECT_EQ(family.name.rfind("hapmoe_", 0), 0u) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_TRUE(names.insert(family.name).second) << family.name << " twice";
    if (family.type == prometheus::MetricType::Counter) {
      EXPECT_THAT(family.name, testing::EndsWith("_total"));
    }
  }
}

TEST(Metrics, RecordingAddsNoSeries) {
  Metrics metrics("1.0", "abc");
  const size_t before = Collect(metrics).size();
  size_t series = 0;
  for (const auto& family : Collect(metrics)) series += family.metric.size();
  for (const ReasonFacts& facts : kReasons) {
    const absl::Status status = Error(facts.reason, "", {{"rule", "never heard of it"}});
    metrics.RecordCall(Method::kPlan, status, CallOutcome::kMiss, std::chrono::milliseconds(1));
    metrics.RecordSearchError(status);
  }
  size_t after = 0;
  for (const auto& family : Collect(metrics)) after += family.metric.size();
  EXPECT_EQ(Collect(metrics).size(), before);
  EXPECT_EQ(after, series);
  EXPECT_THAT(Text(metrics), HasSubstr("hapmoe_infeasible_total{rule=\"other\"} 1"));
  EXPECT_THAT(Text(metrics), Not(HasSubstr("never heard of it")));
}

TEST(Metrics, CountsCallsByMethodCodeAndOutcome) {
  Metrics metrics("1.0", "abc");
  metrics.RecordCall(Method::kEvaluate, absl::OkStatus(), CallOutcome::kMiss,
                     std::chrono::milliseconds(20));
  metrics.RecordCall(Method::kEvaluate, Error(Reason::kDraining), CallOutcome::kShed,
                     std::chrono::microseconds(10));
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("hapmoe_requests_total{code=\"OK\",method=\"Evaluate\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_requests_total{code=\"UNAVAILABLE\",method=\"Evaluate\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_errors_total{reason=\"DRAINING\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_request_duration_seconds_bucket{method=\"Evaluate\","
                              "outcome=\"miss\",le=\"0.025\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_request_duration_seconds_bucket{method=\"Evaluate\","
                              "outcome=\"miss\",le=\"0.01\"} 0"));
}

TEST(Metrics, CountsWhatSearchesDid) {
  Metrics metrics("1.0", "abc");
  v1::PlanAnswer answer;
  answer.mutable_termination()->set_reason(v1::Termination::REASON_OPTIMAL);
  v1::SearchStatistics* statistics = answer.mutable_termination()->mutable_statistics();
  statistics->set_candidates_opened(3);
  statistics->add_pruned()->set_candidates(5);
  statistics->add_pruned()->set_candidates(2);
  v1::MemoryBreakdown* memory = answer.mutable_plan()->add_meshes()->add_stages()->mutable_memory();
  memory->set_peak_bytes(90);
  memory->set_budget_bytes(100);
  metrics.RecordAnswer(answer);
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("hapmoe_search_candidates_total{result=\"opened\"} 3"));
  EXPECT_THAT(text, HasSubstr("hapmoe_search_candidates_total{result=\"pruned\"} 7"));  // 5 + 2
  EXPECT_THAT(text, HasSubstr("hapmoe_search_termination_total{reason=\"optimal\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_predicted_peak_memory_ratio_bucket{le=\"0.9\"} 1"));
  EXPECT_THAT(text, HasSubstr("hapmoe_predicted_peak_memory_ratio_bucket{le=\"0.85\"} 0"));
}

TEST(Metrics, GaugesAreReadWhenMetricsAre) {
  Metrics metrics("1.0", "abc");
  double value = 1;
  metrics.AddGauge("hapmoe_test", "A test.", {{"pool", "x"}}, [&value] { return value; });
  EXPECT_THAT(Text(metrics), HasSubstr("hapmoe_test{pool=\"x\"} 1"));
  value = 2;
  EXPECT_THAT(Text(metrics), HasSubstr("hapmoe_test{pool=\"x\"} 2"));
}

TEST(ProcessMetrics, AreThoseOfThisProcess) {
  std::map<std::string, double> values;
  for (const auto& family : ProcessMetrics().Collect()) {
    values[family.name] = family.metric[0].gauge.value + family.metric[0].counter.value;
  }
  EXPECT_GT(values["process_resident_memory_bytes"], 1e5);
  EXPECT_GT(values["process_virtual_memory_bytes"], values["process_resident_memory_bytes"]);
  EXPECT_GE(values["process_open_fds"], 3);
  EXPECT_GE(values["process_threads"], 1);
  EXPECT_GT(values["process_max_fds"], values["process_open_fds"]);
  EXPECT_GT(values["process_start_time_seconds"], 1e9);
}

}  // namespace
}  // namespace hapmoe::server
