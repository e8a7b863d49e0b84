// The reader and the expectations of case files, on answers that fit in the head.
#include "tests/cases/case_file.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::testing {
namespace {

using google::protobuf::Struct;
using ::testing::HasSubstr;

std::map<std::string, Struct> Answers() {
  Struct answer;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(
          R"({"fits": true, "size": "12", "stages": [{"bytes": 3}, {"bytes": 5}]})", &answer)
          .ok());
  return {{"a", answer}};
}

TEST(HoldsTest, ComparesWhatPathsLeadTo) {
  for (const auto& [expectation, holds] :
       {std::pair{"a.size == 12", true},
        {"a.fits == true", true},
        {"a.fits == false", false},
        {"a.stages.1.bytes > a.stages.0.bytes", true},
        {"max:a.stages.bytes == 5", true},
        {"sum:a.stages.bytes == 8", true},
        {"mean:a.stages.bytes == 4", true},
        {"count:a.stages.bytes == 2", true},
        {"a.size - a.stages.0.bytes * 2 == 18", true},  // From left to right.
        {"a.size / 4 + 1 <= 3", false},
        {"a.size ~0.1 13", true},
        {"a.size ~0.01 13", false}}) {
    std::string explanation;
    const absl::StatusOr<bool> result = Holds(expectation, Answers(), explanation);
    ASSERT_TRUE(result.ok()) << expectation << ": " << result.status();
    EXPECT_EQ(*result, holds) << expectation << ": " << explanation;
  }
}

TEST(HoldsTest, WhatLeadsNowhereIsAnErrorNotFalse) {
  for (const char* expectation :
       {"a.size", "b.size == 1", "a.none == 1", "a.stages.bytes == 3", "a.stages.2.bytes == 3",
        "a.size.more == 1", "a.size ? 1 == 1", "least:a.stages.bytes == 3", "a.size 1 == 1"}) {
    std::string explanation;
    EXPECT_FALSE(Holds(expectation, Answers(), explanation).ok()) << expectation;
  }
}

std::string File(const std::string& run, const std::string& rest) {
  return absl::StrCat(R"({"models": {"m": "--a 1"}, "cases": [{"id": "I", "name": "N", )",
                      R"("source": "S", "runs": {"r": {)", run, "}}", rest, "}]}");
}

TEST(ReadCasesTest, ReadsWhatIsAsked) {
  const auto cases = ReadCases(File(
      R"("model": "m", "args": "--b", "cluster": "2x8 X at 1e9 + 1x4 Y", "plan": true,
         "constraints": {"tp": [8]}, "headroom": 0, "host_memory_bytes": 5, "refused_with": ["no"])",
      ""));
  ASSERT_TRUE(cases.ok()) << cases.status();
  const Question& run = cases->at(0).runs.at("r");
  EXPECT_TRUE(run.plan);
  EXPECT_THAT(run.problem.job().megatron_args(), ::testing::ElementsAre("--a", "1", "--b"));
  ASSERT_EQ(run.problem.cluster().pools_size(), 2);
  EXPECT_EQ(run.problem.cluster().pools(0).network().bytes_per_second(), 1e9);
  EXPECT_EQ(run.problem.cluster().pools(1).accelerators_per_node(), 4u);
  EXPECT_EQ(run.problem.cluster().pools(1).host_memory_bytes(), 5);
  EXPECT_THAT(run.problem.constraints().tp(), ::testing::ElementsAre(8));
  EXPECT_TRUE(run.problem.constraints().has_memory_headroom_ratio());
  EXPECT_THAT(run.refused_with, ::testing::ElementsAre("no"));
}

TEST(ReadCasesTest, FaultsAreNotPassedOver) {
  constexpr char kGood[] = R"("model": "m", "cluster": "1x8 X")";
  EXPECT_TRUE(ReadCases(File(kGood, R"(, "expect": ["1 == 1"])")).ok());
  for (const auto& [run, rest, what] :
       {std::tuple{R"("model": "m", "cluster": "1x8 X", "arg": "")", R"(, "expect": ["1 == 1"])",
                   "unknown key"},
        {kGood, R"(, "expects": ["1 == 1"])", "unknown key"},
        {kGood, "", "nothing is expected"},
        {R"("model": "n", "cluster": "1x8 X")", R"(, "expect": ["1 == 1"])", "no such model"},
        {R"("model": "m", "cluster": "8 X")", R"(, "expect": ["1 == 1"])", "not a pool"},
        {R"("model": "m", "cluster": "1x8 X", "constraints": {"no": 1})",
         R"(, "expect": ["1 == 1"])", "does not parse"}}) {
    EXPECT_THAT(std::string(ReadCases(File(run, rest)).status().message()), HasSubstr(what));
  }
}

}  // namespace
}  // namespace hapmoe::testing
