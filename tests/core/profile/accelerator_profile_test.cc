#include "core/profile/accelerator_profile.h"

#include <cmath>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::profile {
namespace {

using ::testing::IsEmpty;

// A profile without a fault; the figures are round, not real.
OperationTable Table(std::vector<OperationShape> shapes, std::vector<double> seconds,
                     MatrixPrecision precision = MatrixPrecision::kBf16, double error = 10) {
  const Chip chip = {.flops_per_second = 1e15, .memory_bytes_per_second = 3e12, .processors = 100};
  return OperationTable(TableKind::kGemm, precision, BaseFit{}, chip,
                        {std::move(shapes), std::move(seconds)}, error, "a test");
}

AcceleratorProfile ValidProfile() {
  AcceleratorProfile profile;
  profile.name = "Unit-1";
  profile.aliases = {"unit"};
  profile.vendor = "NVIDIA";
  profile.bf16_flops_per_second = 1e15;
  profile.memory_bytes = 80e9;
  profile.memory_bytes_per_second = 3e12;
  profile.context_bytes = 1e9;
  profile.scale_up_bytes_per_second = 200e9;
  profile.scale_up_pair_bytes_per_second = 200e9;
  profile.scale_up_domain = 8;
  profile.network_bytes_per_second = 50e9;
  profile.tables.push_back(Table({{128, 128, 128, 1}}, {1e-6}));
  return profile;
}

TEST(AcceleratorProfile, PeakFlopsIsAbsentForAPrecisionWithoutARate) {
  AcceleratorProfile profile = ValidProfile();
  profile.fp8_flops_per_second = 2e15;
  EXPECT_EQ(profile.PeakFlops(MatrixPrecision::kBf16), 1e15);
  EXPECT_EQ(profile.PeakFlops(MatrixPrecision::kFp8), 2e15);
  EXPECT_EQ(profile.PeakFlops(MatrixPrecision::kFp16), std::nullopt);
  EXPECT_EQ(profile.PeakFlops(MatrixPrecision::kFp32), std::nullopt);
}

TEST(ProfileValidate, AcceptsAValidProfile) { EXPECT_THAT(Validate(ValidProfile()), IsEmpty()); }

struct Fault {
  std::string name;
  std::function<void(AcceleratorProfile&)> plant;
  std::string rule;
  std::string field;
};

class ProfileFaults : public testing::TestWithParam<Fault> {};

TEST_P(ProfileFaults, IsReportedOnceWithItsField) {
  AcceleratorProfile profile = ValidProfile();
  GetParam().plant(profile);
  const Violations violations = Validate(profile);
  ASSERT_EQ(violations.size(), 1u) << violations[1].field;
  EXPECT_EQ(violations[0].rule, GetParam().rule);
  EXPECT_EQ(violations[0].field, GetParam().field);
  EXPECT_FALSE(violations[0].message.empty());
}

using P = AcceleratorProfile;

INSTANTIATE_TEST_SUITE_P(
    All, ProfileFaults,
    testing::Values(
        Fault{"EmptyName", [](P& p) { p.name = ""; }, "profile_name_valid", "profile.accelerator"},
        Fault{"PathInName", [](P& p) { p.name = "../x"; }, "profile_name_valid",
              "profile.accelerator"},
        Fault{"LongName", [](P& p) { p.name = std::string(65, 'a'); }, "profile_name_valid",
              "profile.accelerator"},
        Fault{"AliasIsTheNameIgnoringCase", [](P& p) { p.aliases = {"UNIT-1"}; },
              "profile_alias_unique", "profile.aliases[0]"},
        Fault{"TooManyAliases", [](P& p) { p.aliases.assign(33, "x"); }, "profile_aliases_in_range",
              "profile.aliases"},
        Fault{"NoVendor", [](P& p) { p.vendor = ""; }, "profile_vendor_given", "profile.vendor"},
        Fault{"NoRate",
              [](P& p) {
                p.bf16_flops_per_second.reset();
                p.tables.clear();
              },
              "compute_rate_given", "profile.compute"},
        Fault{"NegativeRate", [](P& p) { p.bf16_flops_per_second = -1; }, "figure_in_range",
              "profile.compute.bf16_flops_per_second"},
        Fault{"NoMemory", [](P& p) { p.memory_bytes = std::nan(""); }, "figure_in_range",
              "profile.memory.capacity_bytes"},
        Fault{"ContextFillsMemory", [](P& p) { p.context_bytes = 80e9; }, "context_below_capacity",
              "profile.memory.context_bytes"},
        Fault{"SlackAboveOne", [](P& p) { p.allocator_slack_ratio = 1.5; }, "figure_not_negative",
              "profile.memory.allocator_slack_ratio"},
        Fault{"NoDomain", [](P& p) { p.scale_up_domain = 0; }, "scale_up_domain_in_range",
              "profile.scale_up.domain_accelerators"},
        Fault{"NoBridge", [](P& p) { p.bridge = Bridge{.island = 4}; }, "figure_in_range",
              "profile.scale_up.bridge_bytes_per_second"},
        Fault{"NoIsland", [](P& p) { p.bridge = Bridge{.island = 0, .bytes_per_second = 1e9}; },
              "island_in_range", "profile.scale_up.island_accelerators"},
        Fault{"UnevenIslands",
              [](P& p) { p.bridge = Bridge{.island = 3, .bytes_per_second = 1e9}; },
              "islands_fill_domain", "profile.scale_up.island_accelerators"},
        Fault{"NoHostLink", [](P& p) { p.host_link_bytes_per_second = 0; }, "figure_in_range",
              "profile.host.link_bytes_per_second"},
        Fault{"NoHostMemory", [](P& p) { p.host_memory_bytes_per_second = std::nan(""); },
              "figure_in_range", "profile.host.memory_bytes_per_second"},
        Fault{"NoNetwork", [](P& p) { p.network_bytes_per_second = 0; }, "figure_in_range",
              "profile.network.bytes_per_second"},
        Fault{"ZeroRatio", [](P& p) { p.memory_ratio = 0; }, "ratio_in_range",
              "profile.efficiency.memory_ratio"},
        Fault{"RatioAboveOne", [](P& p) { p.matrix_ratio = 1.01; }, "ratio_in_range",
              "profile.efficiency.matrix_ratio"},
        Fault{"InfiniteKernel", [](P& p) { p.kernel_seconds = INFINITY; }, "figure_not_negative",
              "profile.efficiency.kernel_seconds"},
        Fault{"SampleWithoutTime",
              [](P& p) {
                p.tables[0] = Table({{128, 128, 128, 1}}, {0});
              },
              "sample_seconds_in_range", "profile.tables[0].microseconds[0]"},
        Fault{"SampleAbovePeak",
              [](P& p) {
                p.tables[0] = Table({{128, 128, 128, 1}}, {1e-12});
              },
              "sample_within_peak", "profile.tables[0].microseconds[0]"},
        Fault{"TableThatMissesItsError",
              [](P& p) {
                // Neighbours that differ by a factor of four from their base times.
                p.tables[0] = Table({{4096, 4096, 4096, 1}, {4096, 4096, 4224, 1}}, {2e-4, 8e-4},
                                    MatrixPrecision::kBf16, 0.1);
              },
              "table_keeps_stated_error", "profile.tables[0].stated_error"},
        Fault{"NoProcessors", [](P& p) { p.processors = 0; }, "processors_in_range",
              "profile.compute.multiprocessors"},
        Fault{"RateInTheWrongUnit", [](P& p) { p.memory_bytes_per_second = 3350; },
              "figure_in_range", "profile.memory.bytes_per_second"},
        Fault{"SampleWithoutSize",
              [](P& p) {
                p.tables[0] = Table({{128, 128, 0, 1}}, {1e-6});
              },
              "sample_size_in_range", "profile.tables[0].k[0]"},
        Fault{"TableOfUnsupportedPrecision",
              [](P& p) {
                p.tables[0] = Table({{128, 128, 128, 1}}, {1e-6}, MatrixPrecision::kFp8);
              },
              "table_precision_supported", "profile.tables[0].precision"}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace hapmoe::profile
