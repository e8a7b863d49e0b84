// hapmoe profiles.
#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands_fixture.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CommandsTest, ProfilesAreListedOverAllPages) {
  fake_.list = [](const v1::ListProfilesRequest& request, v1::ListProfilesResponse& response) {
    v1::ProfileSummary& profile = *response.add_profiles();
    profile.set_accelerator(request.page_token().empty() ? "A100" : "H800");
    profile.set_memory_capacity_bytes(80.0 * 1024 * 1024 * 1024);
    profile.set_matrix_flops_per_second(312e12);
    profile.set_origin(v1::PROFILE_ORIGIN_BUILT_IN);
    if (request.page_token().empty()) response.set_next_page_token("2");
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"profiles", "list"});
  EXPECT_EQ(run.code, kDone);
  EXPECT_EQ(run.out,
            "Accelerator  Aliases  Vendor  Memory GiB  TFLOP/s  Samples  Origin\n"
            "A100                               80.00    312.0        0  built in\n"
            "H800                               80.00    312.0        0  built in\n");
}

TEST_F(CommandsTest, AProfileThatWasPrintedCanBePutBack) {
  v1::AcceleratorProfile stored;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(accelerator: "X1"
           vendor: "V"
           architecture: "a"
           aliases: "X"
           compute { bf16_flops_per_second { value: 1e15 source: "datasheet" } })pb",
      &stored));
  fake_.get = [&stored](const v1::GetProfileRequest& request, v1::GetProfileResponse& response) {
    EXPECT_EQ(request.accelerator(), "x1");
    *response.mutable_profile() = stored;
    response.set_version(3);
    response.set_origin(v1::PROFILE_ORIGIN_STORED);
    return grpc::Status::OK;
  };
  v1::AcceleratorProfile put;
  fake_.put = [&put](const v1::PutProfileRequest& request, v1::PutProfileResponse& response) {
    put = request.profile();
    response.set_version(4);
    return grpc::Status::OK;
  };
  EXPECT_THAT(Run({"profiles", "get", "x1"}).out,
              AllOf(StartsWith("X1, V a, stored, version 3\nalso called X\n"),
                    HasSubstr("bf16_flops_per_second  1e+15  datasheet")));
  const RunOutcome get = Run({"profiles", "get", "x1", "-o", "json"});
  const RunOutcome run = Run({"profiles", "put", "-"}, get.out);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(run.out, "X1 stored as version 4\n");
  EXPECT_EQ(put.SerializeAsString(), stored.SerializeAsString());

  const std::string file = root_.Write("bad.json", "{\"accelerator\": \"X\", \"speed\": 3}");
  const RunOutcome bad = Run({"profiles", "put", file});
  EXPECT_EQ(bad.code, kUsage);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("bad.json: not a profile"), HasSubstr("speed")));
}

TEST_F(CommandsTest, ProfilesAreDeleted) {
  fake_.remove = [](const v1::DeleteProfileRequest& request, v1::DeleteProfileResponse&) {
    if (request.accelerator() == "H800") return grpc::Status::OK;
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no profile for X");
  };
  EXPECT_EQ(Run({"profiles", "delete", "H800"}).out, "H800 deleted\n");
  EXPECT_EQ(Run({"profiles", "delete", "X"}).code, kRefused);
}

v1::AcceleratorProfile MeasuredProfile() {
  v1::AcceleratorProfile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(accelerator: "H800-SXM"
           compute {
             bf16_flops_per_second { value: 1e15 }
             fp8_flops_per_second { value: 2e15 }
           }
           tables {
             kind: OPERATION_KIND_GEMM
             precision: PRECISION_BF16
             stated_error: 0.05
             m: [ 256, 4096, 1024 ]
             n: [ 512, 512, 512 ]
             k: [ 64, 64, 128 ]
             groups: [ 1, 1, 1 ]
             microseconds: [ 1, 2, 3 ]
             source: "bench 1"
           }
           collectives {
             primitive: COLLECTIVE_PRIMITIVE_ALL_GATHER
             ranks: 8
             bytes: [ 1024, 1048576 ]
             seconds: [ 1e-5, 1e-4 ]
             held_bytes: [ 4096 ]
             held_seconds: [ 1e-5 ]
             error_bound: 0.125
             source: "bench 2"
           }
           collectives {
             primitive: COLLECTIVE_PRIMITIVE_ALL_TO_ALL
             ranks: 8
             bytes: [ 1024 ]
             seconds: [ 1e-5 ]
             source: "bench 3"
           })pb",
      &profile));
  return profile;
}

TEST_F(CommandsTest, CoverageListsWhatIsMeasuredAndWhatIsNot) {
  fake_.get = [](const v1::GetProfileRequest&, v1::GetProfileResponse& response) {
    *response.mutable_profile() = MeasuredProfile();
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"profiles", "coverage", "h800"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(run.out,
            "H800-SXM\n"
            "Measured  Precision  Samples           m    n        k  Groups  Error  Source\n"
            "gemm      bf16             3  256..4,096  512  64..128       1  5.0 %  bench 1\n"
            "Measured    Ranks  Points             Bytes     Error  Source\n"
            "all_gather      8       2  1,024..1,048,576    12.5 %  bench 2\n"
            "all_to_all      8       1             1,024  not said  bench 3\n"
            "Not measured in 16 bit: grouped_gemm, attention, attention_backward\n"
            "Not measured in 8 bit: gemm, grouped_gemm\n\n");
}

TEST_F(CommandsTest, CoverageOfAJobSaysWhatItsTimeRestsOn) {
  v1::EvaluateRequest asked;
  fake_.evaluate = [&asked](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    asked = request;
    v1::Prediction& prediction = *response.mutable_prediction();
    prediction.set_iteration_seconds(2);
    prediction.set_low_iteration_seconds(1.5);
    prediction.set_high_iteration_seconds(2.5);
    prediction.mutable_basis()->set_measured_ratio(0.5);
    prediction.mutable_basis()->set_interpolated_ratio(0.25);
    prediction.mutable_basis()->set_analytic_ratio(0.125);
    prediction.mutable_basis()->set_communication_ratio(0.1);
    prediction.mutable_basis()->set_launch_ratio(0.025);
    for (int i = 0; i < 20; ++i) {
      v1::OperationCoverage& one = *response.add_operations();
      one.set_accelerator("H800-SXM");
      one.set_operation(i == 0 ? "experts_fc1" : "norm");
      one.set_m(i == 0 ? 8192 : 0);
      one.set_n(i == 0 ? 4096 : 0);
      one.set_k(i == 0 ? 1024 : 0);
      one.set_groups(i == 0 ? 8 : 0);
      one.set_time_ratio(0.0625);
      one.set_measured_ratio(i == 0 ? 0.25 : 0);
      one.set_interpolated_ratio(i == 0 ? 0.125 : 0);
    }
    return grpc::Status::OK;
  };
  std::vector<std::string> shown;
  fake_.get = [&shown](const v1::GetProfileRequest& request, v1::GetProfileResponse& response) {
    shown.push_back(request.accelerator());
    *response.mutable_profile() = MeasuredProfile();
    return grpc::Status::OK;
  };
  const RunOutcome run =
      Run({"profiles", "coverage", "--cluster", cluster_, "--world-size", "8", "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(asked.world_size(), 8);
  EXPECT_THAT(asked.job().megatron_args(), ElementsAre("--bf16"));
  EXPECT_THAT(shown, ElementsAre("H800"));
  EXPECT_THAT(run.out, StartsWith("An iteration of 2.000 s (1.500 s to 2.500 s) rests on\n"
                                  "  measured shapes          50.0 %\n"
                                  "  between measured shapes  25.0 %\n"
                                  "  calculated               12.5 %\n"
                                  "  communication            10.0 %\n"
                                  "  host launches             2.5 %\n"));
  EXPECT_TRUE(asked.list_operations());
  EXPECT_THAT(
      run.out,
      HasSubstr("Least measured      m      n      k  Groups   Time  Measured  Between  Calculated"
                "  On\n"
                "experts_fc1     8,192  4,096  1,024       8  6.2 %    25.0 %   12.5 %      62.5 %"
                "  H800-SXM\n"
                "norm                                         6.2 %     0.0 %    0.0 %     100.0 %"
                "  H800-SXM\n"));
  // A screen of the worst, not all twenty: the first and eleven more.
  size_t norms = 0;
  for (size_t at = run.out.find("\nnorm "); at != std::string::npos;
       at = run.out.find("\nnorm ", at + 1)) {
    ++norms;
  }
  EXPECT_EQ(norms, 11u);
  EXPECT_THAT(run.out, HasSubstr("H800-SXM\nMeasured "));
}

}  // namespace
}  // namespace hapmoe::client
