// What users ran into, asked of the planner as a caller asks it. user_cases.json holds for each
// where it was told, what is asked, and what the planner must say.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/planning/planner.h"
#include "tests/cases/case_file.h"
#include "tests/server/testing/built_in.h"

namespace hapmoe::testing {

void PrintTo(const Case& c, std::ostream* out) { *out << c.id << " " << c.name; }

namespace {

using google::protobuf::Struct;
using ::testing::HasSubstr;

std::vector<Case> Cases() {
  std::ifstream in(absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/cases/user_cases.json"));
  std::stringstream text;
  text << in.rdbuf();
  absl::StatusOr<std::vector<Case>> cases = ReadCases(text.str());
  // Not a test's failure: without cases there is no test that could fail.
  if (!cases.ok()) {
    ADD_FAILURE() << cases.status();
    std::abort();
  }
  return *std::move(cases);
}

Struct JsonForm(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  Struct form;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &form).ok());
  return form;
}

// A refusal's sentence and its details: rules, sentences and suggestions travel there.
std::string RefusalText(const absl::Status& status) {
  std::string text(status.message());
  status.ForEachPayload([&text](absl::string_view, const absl::Cord& payload) {
    absl::StrAppend(&text, "\n", std::string(payload));
  });
  return text;
}

// Assumptions and notes, a line each.
std::string Sentences(const v1::Prediction& prediction,
                      const google::protobuf::RepeatedPtrField<std::string>& notes) {
  std::string text;
  for (const std::string& sentence : prediction.assumptions())
    absl::StrAppend(&text, sentence, "\n");
  for (const std::string& sentence : notes) absl::StrAppend(&text, sentence, "\n");
  return text;
}

class UserCases : public ::testing::TestWithParam<Case> {
 protected:
  // The answer's JSON form; its sentences in `said`.
  absl::StatusOr<Struct> Ask(const Question& run, std::string& said) {
    const server::Planner planner(*profiles_, engines_, solver_, pool_, timer_, {});
    if (run.plan) {
      const auto answer =
          planner.Plan("user-case", run.problem, std::make_shared<Interrupter>(), nullptr);
      if (!answer.ok()) return answer.status();
      said = Sentences(answer->prediction(), answer->notes());
      return JsonForm(*answer);
    }
    v1::EvaluateRequest request;
    *request.mutable_job() = run.problem.job();
    *request.mutable_cluster() = run.problem.cluster();
    const v1::Constraints& constraints = run.problem.constraints();
    if (constraints.has_memory_headroom_ratio()) {
      request.set_memory_headroom_ratio(constraints.memory_headroom_ratio());
    }
    const auto answer = planner.Evaluate(request);
    if (!answer.ok()) return answer.status();
    said = Sentences(answer->prediction(), {});
    return JsonForm(*answer);
  }

  const std::unique_ptr<server::ProfileStore> profiles_ = server::BuiltInProfiles();
  const server::EngineCatalog engines_ = server::BuiltInEngines();
  server::SearchSolver solver_;
  server::DeadlineTimer timer_;
  server::ThreadPool pool_{1, 1};
};

TEST_P(UserCases, IsAnsweredRightly) {
  const Case& c = GetParam();
  SCOPED_TRACE(absl::StrCat(c.id, ", told at ", c.source, ". ", c.note));
  std::map<std::string, Struct> answers;
  for (const auto& [name, run] : c.runs) {
    std::string said;
    absl::StatusOr<Struct> answer = Ask(run, said);
    if (!run.refused_with.empty()) {
      ASSERT_FALSE(answer.ok()) << name;
      for (const std::string& piece : run.refused_with) {
        EXPECT_THAT(RefusalText(answer.status()), HasSubstr(piece)) << name;
      }
      continue;
    }
    ASSERT_TRUE(answer.ok()) << name << ": " << RefusalText(answer.status());
    for (const std::string& piece : run.says) EXPECT_THAT(said, HasSubstr(piece)) << name;
    answers.emplace(name, *std::move(answer));
  }
  for (const std::string& expectation : c.expect) {
    std::string explanation;
    const absl::StatusOr<bool> holds = Holds(expectation, answers, explanation);
    ASSERT_TRUE(holds.ok()) << expectation << ": " << holds.status();
    EXPECT_TRUE(*holds) << expectation << ": " << explanation;
  }
}

INSTANTIATE_TEST_SUITE_P(All, UserCases, ::testing::ValuesIn(Cases()), [](const auto& tested) {
  return absl::StrCat(tested.param.id, "_", tested.param.name);
});

}  // namespace
}  // namespace hapmoe::testing
