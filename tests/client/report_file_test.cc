#include "client/report_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hapmoe::client {
namespace {

using ::testing::HasSubstr;

TEST(ReportFile, ReadsThePlanOfEveryAnswerThatHoldsOne) {
  const std::string plan = R"({"plan_id": "abc", "meshes": [{"pool": "a", "tp": 2}]})";
  for (const std::string& text :
       {plan, R"({"answer": {"plan": )" + plan + "}}", R"({"plan": )" + plan + "}",
        R"({"best": {"plan": )" + plan + "}}"}) {
    const auto read = ParsePlanFile("plan.json", text);
    ASSERT_TRUE(read.ok()) << text << read.status();
    EXPECT_EQ(read->plan_id(), "abc");
    EXPECT_EQ(read->meshes(0).tp(), 2);
  }
  for (const std::string text : {"", "[]", "{}", R"({"answer": {}})", "no json"}) {
    EXPECT_THAT(std::string(ParsePlanFile("plan.json", text).status().message()),
                HasSubstr("plan.json"))
        << text;
  }
}

TEST(ReportFile, ReadsAProfilersSummary) {
  v1::IterationReport report;
  const absl::Status added = AddMeasured("report.json", R"({
    "plan_id": "abc", "iteration_seconds": 5.25, "iterations": 10, "router_imbalance": 1.5,
    "stages": [{"stage": 0, "peak_allocated_bytes": 10, "peak_reserved_bytes": 12},
               {"stage": 1, "peak_allocated_bytes": 30, "peak_reserved_bytes": 31}]})",
                                         report);
  ASSERT_TRUE(added.ok()) << added;
  EXPECT_EQ(report.plan_id(), "abc");
  EXPECT_EQ(report.iteration_seconds(), 5.25);
  EXPECT_EQ(report.load_imbalance(), 1.5);
  EXPECT_EQ(report.allocated_memory_bytes(), 30);
  EXPECT_EQ(report.reserved_memory_bytes(), 31);
}

TEST(ReportFile, WhatWasGivenComesFirst) {
  v1::IterationReport report;
  report.set_iteration_seconds(4);
  report.set_plan_id("mine");
  ASSERT_TRUE(AddMeasured("r", R"({"plan_id": "abc", "iteration_seconds": 5})", report).ok());
  EXPECT_EQ(report.iteration_seconds(), 4);
  EXPECT_EQ(report.plan_id(), "mine");
}

TEST(ReportFile, NamesWhatIsWrongWithASummary) {
  const auto fault = [](const std::string& text) {
    v1::IterationReport report;
    return std::string(AddMeasured("r.json", text, report).message());
  };
  EXPECT_THAT(fault("7"), HasSubstr("not a JSON object"));
  EXPECT_THAT(fault("{}"), HasSubstr("iteration_seconds is missing"));
  EXPECT_THAT(fault(R"({"iteration_seconds": "5"})"), HasSubstr("must be a number"));
  EXPECT_THAT(fault(R"({"iteration_seconds": 5, "stages": [{"peak_allocated_bytes": -1}]})"),
              HasSubstr("peak_allocated_bytes must be a number of bytes"));
}

}  // namespace
}  // namespace hapmoe::client
