// The store of profiles over the loopback.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Calls with a context each.
grpc::Status Put(TestServer& server, const v1::AcceleratorProfile& profile,
                 int64_t* version = nullptr) {
  grpc::ClientContext context;
  v1::PutProfileRequest request;
  *request.mutable_profile() = profile;
  v1::PutProfileResponse response;
  const grpc::Status status = server.profiles().PutProfile(&context, request, &response);
  if (version != nullptr) *version = response.version();
  return status;
}

grpc::Status Get(TestServer& server, const std::string& name, v1::GetProfileResponse* response) {
  grpc::ClientContext context;
  v1::GetProfileRequest request;
  request.set_accelerator(name);
  return server.profiles().GetProfile(&context, request, response);
}

grpc::Status Delete(TestServer& server, const std::string& name) {
  grpc::ClientContext context;
  v1::DeleteProfileRequest request;
  request.set_accelerator(name);
  v1::DeleteProfileResponse response;
  return server.profiles().DeleteProfile(&context, request, &response);
}

grpc::Status List(TestServer& server, int32_t page_size, const std::string& token,
                  v1::ListProfilesResponse* response) {
  grpc::ClientContext context;
  v1::ListProfilesRequest request;
  request.set_page_size(page_size);
  request.set_page_token(token);
  return server.profiles().ListProfiles(&context, request, response);
}

TEST(Profiles, PutThenGetThenDelete) {
  TestServer server;
  const v1::AcceleratorProfile profile = RoundProfile("Unit-1");
  int64_t version = 0;
  ASSERT_TRUE(Put(server, profile, &version).ok());
  v1::GetProfileResponse got;
  ASSERT_TRUE(Get(server, "UNIT-1", &got).ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(got.profile(), profile));
  EXPECT_EQ(got.version(), version);
  EXPECT_EQ(got.origin(), v1::PROFILE_ORIGIN_STORED);
  ASSERT_TRUE(Delete(server, "unit-1").ok());
  const grpc::Status gone = Get(server, "Unit-1", &got);
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ErrorInfoOf(gone).reason(), "PROFILE_NOT_FOUND");
}

TEST(Profiles, ProfileThatIsPutIsUsedByThePlanner) {
  TestServer server;
  ASSERT_TRUE(Put(server, RoundProfile("Unit-1")).ok());
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_accelerator("unit-1");
  grpc::ClientContext context;
  v1::PlanResponse response;
  const grpc::Status status = server.planner().Plan(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.answer().plan().meshes(0).accelerator(), "Unit-1");
}

TEST(Profiles, IncompleteProfileIsRefusedWithAllItsFaults) {
  TestServer server;
  v1::AcceleratorProfile profile = RoundProfile("Unit-1");
  profile.mutable_memory()->clear_capacity_bytes();
  profile.mutable_efficiency()->mutable_matrix_ratio()->set_value(1.5);
  profile.add_aliases("H800");  // Stands for a built-in one.
  const grpc::Status status = Put(server, profile);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "PROFILE_INVALID");
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  std::vector<std::string> fields;
  for (const auto& fault : details[0].field_violations()) fields.push_back(fault.field());
  EXPECT_THAT(fields,
              UnorderedElementsAre("profile.memory.capacity_bytes",
                                   "profile.efficiency.matrix_ratio", "profile.aliases[0]"));
}

TEST(Profiles, BuiltInProfileCannotBeDeletedAndShowsAgain) {
  TestServer server;
  const grpc::Status status = Delete(server, "H800");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "PROFILE_BUILT_IN");
  ASSERT_TRUE(Put(server, RoundProfile("H800-SXM")).ok());
  v1::GetProfileResponse got;
  ASSERT_TRUE(Get(server, "H800-SXM", &got).ok());
  EXPECT_EQ(got.origin(), v1::PROFILE_ORIGIN_STORED);
  ASSERT_TRUE(Delete(server, "H800-SXM").ok());
  ASSERT_TRUE(Get(server, "H800", &got).ok());
  EXPECT_EQ(got.origin(), v1::PROFILE_ORIGIN_BUILT_IN);
}

TEST(Profiles, ListComesInPagesOrderedByName) {
  TestServer server;
  v1::ListProfilesResponse all;
  ASSERT_TRUE(List(server, 5000, "", &all).ok());
  EXPECT_EQ(all.profiles_size(), static_cast<int>(server.server().profiles()));
  EXPECT_EQ(all.next_page_token(), "");
  std::vector<std::string> names;
  std::string token;
  do {
    v1::ListProfilesResponse page;
    ASSERT_TRUE(List(server, 7, token, &page).ok());
    EXPECT_LE(page.profiles_size(), 7);
    for (const auto& profile : page.profiles()) names.push_back(profile.accelerator());
    token = page.next_page_token();
  } while (!token.empty());
  ASSERT_EQ(names.size(), server.server().profiles());
  for (int i = 0; i < all.profiles_size(); ++i) {
    EXPECT_EQ(names[i], all.profiles(i).accelerator());
    EXPECT_GT(all.profiles(i).memory_capacity_bytes(), 0);
    EXPECT_GT(all.profiles(i).matrix_flops_per_second(), 0) << names[i];
  }
}

TEST(Profiles, BadPagesAreRefused) {
  TestServer server;
  v1::ListProfilesResponse page;
  const grpc::Status negative = List(server, -1, "", &page);
  EXPECT_EQ(negative.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(negative).reason(), "REQUEST_INVALID");
  const grpc::Status invented = List(server, 5, "00000000abcd", &page);
  EXPECT_EQ(invented.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(invented).reason(), "PAGE_TOKEN_INVALID");
}

TEST(Profiles, UnwritableStateIsAFailureAndChangesNothing) {
  const TemporaryDirectory state;
  ServerOptions options = TestServer::Options();
  options.state_dir = state.path();
  TestServer server(std::make_unique<SearchSolver>(), options);
  std::filesystem::remove(state.path() + "/hapmoe.db");  // What is written to it now is lost.
  const grpc::Status status = Put(server, RoundProfile("Unit-1"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "STORAGE_FAILED");
  EXPECT_THAT(status.error_message(), testing::HasSubstr("storage failed"));
  EXPECT_EQ(server.Metric("hapmoe_storage_up"), 0);
  v1::GetProfileResponse got;
  EXPECT_EQ(Get(server, "Unit-1", &got).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(Profiles, StoredProfilesOutliveTheServer) {
  const TemporaryDirectory state;
  ServerOptions options = TestServer::Options();
  options.state_dir = state.path();
  int64_t version = 0;
  {
    TestServer server(std::make_unique<SearchSolver>(), options);
    ASSERT_TRUE(Put(server, RoundProfile("Unit-1")).ok());
    ASSERT_TRUE(Put(server, RoundProfile("Unit-2")).ok());
    ASSERT_TRUE(Put(server, RoundProfile("Unit-1"), &version).ok());
    ASSERT_TRUE(Delete(server, "Unit-2").ok());
  }
  TestServer server(std::make_unique<SearchSolver>(), options);
  EXPECT_THAT(server.server().faults(), IsEmpty());
  v1::GetProfileResponse got;
  ASSERT_TRUE(Get(server, "Unit-1", &got).ok());
  EXPECT_EQ(got.version(), version);
  EXPECT_EQ(Get(server, "Unit-2", &got).error_code(), grpc::StatusCode::NOT_FOUND);
  int64_t next = 0;
  ASSERT_TRUE(Put(server, RoundProfile("Unit-3"), &next).ok());
  EXPECT_EQ(next, version + 2);  // The deletion took one.
}

}  // namespace
}  // namespace hapmoe::server
