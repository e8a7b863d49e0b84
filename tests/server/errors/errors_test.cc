#include "server/errors/errors.h"

#include <chrono>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// The one detail of a type in a status as it travels; fails the test if there is not exactly one.
template <typename Detail>
Detail OnlyDetail(const absl::Status& status) {
  Detail detail;
  int found = 0;
  const google::rpc::Status wire = ToWire(status);
  for (const auto& any : wire.details()) {
    if (any.Is<Detail>()) {
      EXPECT_TRUE(any.UnpackTo(&detail));
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
  return detail;
}

TEST(Reasons, AreUniqueAndInOrder) {
  std::set<std::string> seen;
  for (const ReasonFacts& facts : kReasons) {
    EXPECT_TRUE(seen.insert(std::string(facts.wire)).second) << facts.wire;
    EXPECT_EQ(&Facts(facts.reason), &facts);
    EXPECT_NE(facts.code, absl::StatusCode::kOk);
  }
}

TEST(Errors, EveryReasonCarriesOneErrorInfo) {
  for (const ReasonFacts& facts : kReasons) {
    const absl::Status status = Error(facts.reason, "More.", {{"key", "value"}});
    EXPECT_EQ(status.code(), facts.code);
    EXPECT_EQ(status.message(), std::string(facts.text) + " More.");
    EXPECT_EQ(ReasonOf(status), facts.reason);
    const auto info = OnlyDetail<google::rpc::ErrorInfo>(status);
    EXPECT_EQ(info.reason(), facts.wire);
    EXPECT_EQ(info.domain(), "hapmoe");
    EXPECT_EQ(info.metadata().at("key"), "value");
  }
}

TEST(Errors, AFaultOfOurOwnDoesNotShowItsMessage) {
  const absl::Status status = absl::InvalidArgumentError("secret");
  EXPECT_EQ(ReasonOf(status), Reason::kInternalFault);
  const google::rpc::Status wire = ToWire(status);
  EXPECT_EQ(wire.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(wire.message(), Not(HasSubstr("secret")));
  EXPECT_EQ(wire.details_size(), 1);
}

TEST(Errors, ViolationsAreAllListed) {
  const absl::Status status =
      InvalidError(Reason::kRequestInvalid,
                   {{"rule_a", "field.a", "A is 1."}, {"rule_b", "--option-b", "B is 2."}});
  EXPECT_EQ(status.message(), "The request has faults. field.a: A is 1. (the first of 2 faults)");
  const auto detail = OnlyDetail<google::rpc::BadRequest>(status);
  ASSERT_EQ(detail.field_violations_size(), 2);
  EXPECT_EQ(detail.field_violations(0).field(), "field.a");
  EXPECT_EQ(detail.field_violations(0).reason(), "rule_a");
  EXPECT_EQ(detail.field_violations(1).field(), "--option-b");
  EXPECT_EQ(detail.field_violations(1).description(), "B is 2.");
}

TEST(Errors, ThousandsOfLongViolationsStillFitATrailer) {
  Violations violations(5000, {"rule", std::string(2000, 'f'), std::string(5000, 'm')});
  const absl::Status status = InvalidError(Reason::kRequestInvalid, violations);
  // gRPC's default limit of 8 KiB holds for the details in base64 and the message together.
  EXPECT_LT(ToWire(status).ByteSizeLong() * 4 / 3 + status.message().size(), 8000u);
  const auto info = OnlyDetail<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.metadata().at("violations"), "5000");
  const int shown = OnlyDetail<google::rpc::BadRequest>(status).field_violations_size();
  EXPECT_GT(shown, 0);
  EXPECT_EQ(info.metadata().at("violations_shown"), std::to_string(shown));
}

TEST(Errors, TextsAreCutBetweenCharacters) {
  // 511 one-byte characters, then one of two bytes that crosses the limit of 512.
  const absl::Status status = Error(Reason::kDraining, std::string(511, 'a') + "\u00e9 and more");
  EXPECT_EQ(status.message(), "The server is shutting down. " + std::string(511, 'a') + "...");
}

TEST(Errors, MissingProfilesAreNamedWithTheNearest) {
  const absl::Status status = ProfileNotFoundError({{"H80", {"H800-SXM", "H20"}}, {"X", {}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("\"H80\" is not known. The nearest are: H800-SXM, H20. \"X\" is not known."));
  EXPECT_EQ(OnlyDetail<google::rpc::ResourceInfo>(status).resource_name(), "H80");
  EXPECT_EQ(OnlyDetail<google::rpc::ErrorInfo>(status).metadata().at("missing"), "H80, X");
}

TEST(Errors, NoPlanFitsSaysWhatBindsAndWhatWouldFit) {
  const absl::Status status = NoPlanFitsError(
      {"memory", "stage 0", "Stage 0 is short of 5 bytes.", "Four nodes would do.", 5, {}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "No plan fits. Stage 0 is short of 5 bytes. Four nodes would do.");
  const auto failure = OnlyDetail<google::rpc::PreconditionFailure>(status);
  EXPECT_EQ(failure.violations(0).type(), "memory");
  EXPECT_EQ(failure.violations(0).subject(), "stage 0");
  const auto info = OnlyDetail<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.metadata().at("bytes_short"), "5");
  EXPECT_EQ(info.metadata().at("suggestion"), "Four nodes would do.");
}

v1::SuggestedChange Change(const std::string& sentence) {
  v1::SuggestedChange change;
  change.set_kind(v1::SuggestedChange::KIND_ADD_NODES);
  change.set_amount(2);
  change.set_subject("a100");
  change.set_sentence(sentence);
  return change;
}

TEST(Errors, NoPlanFitsListsEveryChange) {
  BindingConstraint binding = {"memory", "", "Nothing fits.", "Add one.", 0, {}};
  *binding.changes.add_alternatives() = Change("Add one.");
  *binding.changes.add_alternatives() = Change("Or two.");
  *binding.changes.add_together() = Change("Both.");
  const absl::Status status = NoPlanFitsError(binding);
  const auto changes = OnlyDetail<v1::SuggestedChanges>(status);
  ASSERT_EQ(changes.alternatives_size(), 2);
  EXPECT_EQ(changes.alternatives(1).sentence(), "Or two.");
  EXPECT_EQ(changes.alternatives(1).amount(), 2);
  EXPECT_EQ(changes.alternatives(1).subject(), "a100");
  EXPECT_EQ(changes.together(0).sentence(), "Both.");
  EXPECT_EQ(MetadataOf(status, "changes"), "3");
  EXPECT_EQ(MetadataOf(status, "changes_shown"), "3");
}

TEST(Errors, ManyChangesStillFitATrailer) {
  const std::string long_text(3000, 't');
  BindingConstraint binding = {long_text, long_text, long_text, long_text, 5, {}};
  for (int i = 0; i < 100; ++i) *binding.changes.add_alternatives() = Change(long_text);
  for (int i = 0; i < 3; ++i) *binding.changes.add_together() = Change(std::string(400, 't'));
  const absl::Status status = NoPlanFitsError(binding);
  EXPECT_LT(ToWire(status).ByteSizeLong() * 4 / 3 + status.message().size(), 8000u);
  const auto changes = OnlyDetail<v1::SuggestedChanges>(status);
  EXPECT_GT(changes.alternatives_size(), 0);
  EXPECT_LT(changes.alternatives_size(), 100);
  // What is needed together is told whole or not at all.
  EXPECT_EQ(changes.together_size(), 0);
  EXPECT_EQ(MetadataOf(status, "changes"), "103");
  EXPECT_EQ(MetadataOf(status, "changes_shown"), std::to_string(changes.alternatives_size()));
}

TEST(Errors, ViolationsCanBeReadBack) {
  const Violations violations = {{"rule_a", "field.a", "First."}, {"rule_b", "--b", "Second."}};
  EXPECT_EQ(ViolationsOf(InvalidError(Reason::kLayoutInvalid, violations)), violations);
  EXPECT_TRUE(ViolationsOf(Error(Reason::kDraining)).empty());
  EXPECT_TRUE(ViolationsOf(absl::OkStatus()).empty());
}

// Worth trying again where others have the memory, and only there.
TEST(Errors, ASearchTooLargeSaysItsFiguresAndWhenToTryAgainIfEver) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const struct {
    int64_t wanted;
    bool others;
  } kCases[] = {{100 * kMebibyte, true}, {300 * kMebibyte, true}, {300 * kMebibyte + 1, false}};
  for (const auto& one : kCases) {
    const absl::Status status = SearchTooLargeError({one.wanted, 300 * kMebibyte, 400 * kMebibyte},
                                                    std::chrono::milliseconds(1500));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(status), Reason::kSearchTooLarge);
    const std::string message(status.message());
    EXPECT_NE(message.find("one search can have 300 MiB, all together 400 MiB"), std::string::npos);
    EXPECT_EQ(message.find("try again in 1500 ms") != std::string::npos, one.others);
    EXPECT_EQ(message.find("--max_search_memory") != std::string::npos, !one.others);
    EXPECT_EQ(MetadataOf(status, "wanted_bytes"), std::to_string(one.wanted));
    EXPECT_EQ(MetadataOf(status, "max_search_memory"), std::to_string(400 * kMebibyte));
    EXPECT_EQ(MetadataOf(status, "retry_after_milliseconds"), one.others ? "1500" : "");
    EXPECT_EQ(status.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value(),
              one.others);
  }
}

TEST(Errors, QueueFullSaysWhenToTryAgain) {
  const absl::Status status = QueueFullError(std::chrono::milliseconds(1250));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const auto retry = OnlyDetail<google::rpc::RetryInfo>(status);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
}

}  // namespace
}  // namespace hapmoe::server
