// Answers as text, against tests/golden/client: NAME.textproto holds an answer, NAME.txt its text.
// HAPMOE_REGENERATE_GOLDENS=1 writes the texts instead.
#include "client/answer_text.h"

#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/explain_text.h"
#include "client/frontier_text.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

std::string GoldenPath(const std::string& name) {
  return absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/client/", name);
}

std::string ReadGolden(const std::string& name) {
  std::ifstream file(GoldenPath(name), std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <typename Message>
Message ReadMessage(const std::string& name) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(ReadGolden(name), &message)) << name;
  return message;
}

void ExpectGolden(const std::string& text, const std::string& name) {
  if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) {
    std::ofstream(GoldenPath(name), std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, ReadGolden(name));
}

TEST(AnswerTextTest, PlansAreRenderedAsTheGoldenFilesSay) {
  for (const std::string name :
       {"mixed_vendors", "interleaved", "single", "choice", "any_engine"}) {
    SCOPED_TRACE(name);
    const auto answer = ReadMessage<v1::PlanAnswer>(name + ".textproto");
    ExpectGolden(AnswerText(answer, name == "single" ? "" : "out"), name + ".txt");
  }
}

TEST(AnswerTextTest, AnEvaluationThatDoesNotFitSaysSoFirst) {
  const auto response = ReadMessage<v1::EvaluateResponse>("misfit.textproto");
  ExpectGolden(EvaluationText(response), "misfit.txt");
}

TEST(FrontierTextTest, IsRenderedAsTheGoldenFileSays) {
  ExpectGolden(FrontierText(ReadMessage<v1::FrontierResponse>("frontier.textproto")),
               "frontier.txt");
}

TEST(ExplainTextTest, IsRenderedAsTheGoldenFilesSay) {
  for (const std::string name : {"explain", "explain_invalid"}) {
    SCOPED_TRACE(name);
    ExpectGolden(ExplanationText(ReadMessage<v1::ExplainResponse>(name + ".textproto")),
                 name + ".txt");
  }
}

TEST(AnswerTextTest, EmptyMessagesAreRenderedWithoutHarm) {
  EXPECT_FALSE(AnswerText({}, "").empty());
  EXPECT_FALSE(EvaluationText({}).empty());
  EXPECT_FALSE(FrontierText({}).empty());
  EXPECT_FALSE(ExplanationText({}).empty());
  EXPECT_FALSE(ProgressText({}).empty());
  EXPECT_FALSE(ServerInfoText({}).empty());
  EXPECT_FALSE(ProfileListText({}).empty());
  EXPECT_FALSE(ProfileText({}).empty());
}

TEST(AnswerTextTest, WhatTheServerSaysCannotMoveTheCursor) {
  v1::PlanAnswer answer;
  v1::Mesh& mesh = *answer.mutable_plan()->add_meshes();
  mesh.set_pool("\x1b[2J");
  mesh.add_stages()->mutable_recompute()->set_granularity("\x1b[2J");
  answer.mutable_plan()->add_nodes()->set_host("\x1b[2J");
  answer.mutable_plan()->set_engine_requirement("\x1b[2J");
  answer.add_notes("\x1b[2J");
  answer.add_artifacts()->set_name("\x1b[2J");
  answer.mutable_prediction()->add_assumptions("\x1b[2J");
  answer.mutable_termination()->add_restrictions("\x1b[2J");
  answer.add_alternatives()->set_kind("\x1b[2J");
  v1::AllocationChoice& choice = *answer.mutable_choice();
  choice.set_why("\x1b[2J");
  choice.add_allocation()->set_pool("\x1b[2J");
  choice.add_points()->set_why("\x1b[2J");
  EXPECT_EQ(AnswerText(answer, "").find('\x1b'), std::string::npos);
  v1::ExplainResponse explanation;
  explanation.add_sentences("\x1b[2J");
  explanation.add_layout_faults()->set_field("\x1b[2J");
  v1::TermDifference& term = *explanation.add_terms();
  term.set_term("\x1b[2J");
  term.set_best_seconds(1);
  EXPECT_EQ(ExplanationText(explanation).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace hapmoe::client
