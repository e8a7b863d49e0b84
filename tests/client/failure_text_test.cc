#include "client/failure_text.h"

#include <grpcpp/support/error_details.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::HasSubstr;

grpc::Status Rich(grpc::StatusCode code, const std::string& message,
                  const std::vector<const google::protobuf::Message*>& details) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  for (const auto* detail : details) rich.add_details()->PackFrom(*detail);
  grpc::Status status;
  EXPECT_TRUE(grpc::SetErrorDetails(rich, &status).ok());
  return status;
}

TEST(FailureTextTest, ListsEveryFieldViolation) {
  google::rpc::BadRequest bad;
  auto* first = bad.add_field_violations();
  first->set_field("--num-query-groups");
  first->set_description("5 does not divide 32 attention heads");
  first->set_reason("query_groups_divide_heads");
  auto* second = bad.add_field_violations();
  second->set_field("cluster.pools[0].name");
  second->set_description("is empty\x1b[31m");
  const grpc::Status status = Rich(grpc::StatusCode::INVALID_ARGUMENT, "2 faults", {&bad});
  EXPECT_EQ(FailureText(status, "h:1"),
            "hapmoe: the request was refused: 2 faults.\n"
            "  --num-query-groups: 5 does not divide 32 attention heads "
            "[query_groups_divide_heads]\n"
            "  cluster.pools[0].name: is empty\\x1b[31m\n");
  EXPECT_EQ(ExitCodeOf(status), kRefused);
}

TEST(FailureTextTest, SaysWhatBindsAndWhatWouldFit) {
  google::rpc::PreconditionFailure failure;
  auto* violation = failure.add_violations();
  violation->set_type("MEMORY");
  violation->set_subject("stage 0");
  violation->set_description("needs 3.20 GiB more; one more A100 node would fit");
  const grpc::Status status =
      Rich(grpc::StatusCode::FAILED_PRECONDITION, "no plan fits", {&failure});
  EXPECT_EQ(FailureText(status, "h:1"),
            "hapmoe: this cannot be done as asked: no plan fits.\n"
            "  stage 0: needs 3.20 GiB more; one more A100 node would fit [MEMORY]\n");
  EXPECT_EQ(ExitCodeOf(status), kRefused);
}

// A failure as the server sends it where nothing fits.
grpc::Status NothingFits(const std::string& suggestion, const v1::SuggestedChanges& changes) {
  google::rpc::PreconditionFailure failure;
  auto* violation = failure.add_violations();
  violation->set_type("memory");
  violation->set_subject("stage 0");
  violation->set_description("Stage 0 lacks 3.20 GiB.");
  google::rpc::ErrorInfo info;
  (*info.mutable_metadata())["suggestion"] = suggestion;
  return Rich(grpc::StatusCode::FAILED_PRECONDITION,
              "No plan fits. Stage 0 lacks 3.20 GiB. " + suggestion, {&info, &failure, &changes});
}

TEST(FailureTextTest, ListsEveryChangeThatWouldBeEnough) {
  v1::SuggestedChanges changes;
  changes.add_alternatives()->set_sentence("Let accelerators idle (--allow-idle).");
  changes.add_alternatives()->set_sentence("Add 2 nodes to pool a\x1b[2J.");
  EXPECT_EQ(FailureText(NothingFits("Let accelerators idle (--allow-idle).", changes), "h:1"),
            "hapmoe: this cannot be done as asked: No plan fits. Stage 0 lacks 3.20 GiB.\n"
            "  what binds: memory, stage 0\n"
            "Any one of these would be enough:\n"
            "  - Let accelerators idle (--allow-idle).\n"
            "  - Add 2 nodes to pool a\\x1b[2J.\n");
}

TEST(FailureTextTest, ListsChangesThatAreEnoughTogether) {
  v1::SuggestedChanges changes;
  changes.add_together()->set_sentence("Allow any tp (leave out --tp).");
  changes.add_together()->set_sentence("Add 1 node to pool a.");
  const std::string text = FailureText(
      NothingFits("Allow any tp (leave out --tp). Add 1 node to pool a.", changes), "h:1");
  EXPECT_EQ(text,
            "hapmoe: this cannot be done as asked: No plan fits. Stage 0 lacks 3.20 GiB.\n"
            "  what binds: memory, stage 0\n"
            "All of these together would be enough:\n"
            "  - Allow any tp (leave out --tp).\n"
            "  - Add 1 node to pool a.\n");
}

TEST(FailureTextTest, OneChangeIsNotCalledSeveral) {
  v1::SuggestedChanges changes;
  changes.add_alternatives()->set_sentence("Add 1 node to pool a.");
  EXPECT_THAT(FailureText(NothingFits("Add 1 node to pool a.", changes), "h:1"),
              HasSubstr("\nThis would be enough:\n  - Add 1 node to pool a.\n"));
}

TEST(FailureTextTest, ASuggestionWithoutAListIsKept) {
  EXPECT_THAT(FailureText(NothingFits("Allow 2.5 s an iteration.", {}), "h:1"),
              HasSubstr("No plan fits. Stage 0 lacks 3.20 GiB. Allow 2.5 s an iteration.\n"));
}

TEST(FailureTextTest, NamesTheNearestTypes) {
  google::rpc::ResourceInfo resource;
  resource.set_resource_type("accelerator profile");
  resource.set_resource_name("H80");
  resource.set_description("not known; the nearest are H800-SXM, H100-SXM");
  const std::string text =
      FailureText(Rich(grpc::StatusCode::NOT_FOUND, "no profile for H80", {&resource}), "h:1");
  EXPECT_EQ(text,
            "hapmoe: not found: no profile for H80.\n"
            "  accelerator profile H80: not known; the nearest are H800-SXM, H100-SXM\n"
            "`hapmoe profiles list` shows the accelerator types that the planner knows.\n");
}

TEST(FailureTextTest, SaysWhenToTryAgain) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  const grpc::Status status = Rich(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue full", {&retry});
  EXPECT_THAT(FailureText(status, "h:1"), HasSubstr("Try again in 1.5s.\n"));
  EXPECT_EQ(ExitCodeOf(status), kServerFailed);
}

TEST(FailureTextTest, DetailsThatAreNotDetailsAreIgnored) {
  const grpc::Status status(grpc::StatusCode::INVALID_ARGUMENT, "bad", "\xff\xff not a status");
  EXPECT_EQ(FailureText(status, "h:1"), "hapmoe: the request was refused: bad.\n");
}

TEST(FailureTextTest, ASearchThatIsTooLargeIsRefused) {
  google::rpc::ErrorInfo info;
  info.set_reason("SEARCH_TOO_LARGE");
  const grpc::Status status =
      Rich(grpc::StatusCode::RESOURCE_EXHAUSTED, "It needs more than 1 GiB", {&info});
  EXPECT_EQ(ExitCodeOf(status), kRefused);
  EXPECT_THAT(FailureText(status, "h:1"), HasSubstr("ended the search: It needs more than 1 GiB"));
}

TEST(FailureTextTest, EveryCodeHasItsExit) {
  const std::vector<std::pair<grpc::StatusCode, ExitCode>> cases = {
      {grpc::StatusCode::CANCELLED, kServerFailed},
      {grpc::StatusCode::UNKNOWN, kServerFailed},
      {grpc::StatusCode::INVALID_ARGUMENT, kRefused},
      {grpc::StatusCode::DEADLINE_EXCEEDED, kServerFailed},
      {grpc::StatusCode::NOT_FOUND, kRefused},
      {grpc::StatusCode::ALREADY_EXISTS, kRefused},
      {grpc::StatusCode::PERMISSION_DENIED, kRefused},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, kServerFailed},
      {grpc::StatusCode::FAILED_PRECONDITION, kRefused},
      {grpc::StatusCode::ABORTED, kServerFailed},
      {grpc::StatusCode::OUT_OF_RANGE, kRefused},
      {grpc::StatusCode::UNIMPLEMENTED, kServerFailed},
      {grpc::StatusCode::INTERNAL, kServerFailed},
      {grpc::StatusCode::UNAVAILABLE, kServerFailed},
      {grpc::StatusCode::UNAUTHENTICATED, kRefused},
  };
  for (const auto& [code, exit] : cases) {
    const grpc::Status status(code, "why");
    EXPECT_EQ(ExitCodeOf(status), exit) << code;
    EXPECT_THAT(FailureText(status, "h:1"), HasSubstr("why."));
  }
}

// The server answers: that it cannot be reached would be wrong.
TEST(FailureTextTest, FailedStorageIsNotAnUnreachableServer) {
  google::rpc::ErrorInfo info;
  info.set_reason("STORAGE_FAILED");
  const grpc::Status status = Rich(grpc::StatusCode::UNAVAILABLE,
                                   "The server's storage failed. Nothing was changed", {&info});
  EXPECT_EQ(FailureText(status, "h:1"),
            "hapmoe: the planner at h:1 could not store this: The server's storage failed. Nothing "
            "was changed.\n"
            "Its log says what its disk or its database lacks. Try again once that is mended.\n");
  EXPECT_EQ(ExitCodeOf(status), kServerFailed);
}

}  // namespace
}  // namespace hapmoe::client
