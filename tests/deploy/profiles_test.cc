// Every file of deploy/profiles: strict JSON of AcceleratorProfile, sourced figures, sane ranges.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "hapmoe/v1/profile.pb.h"
#include "server/embedded/embedded.h"

namespace hapmoe {
namespace {

using ::hapmoe::v1::AcceleratorProfile;
using ::hapmoe::v1::Figure;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

struct ProfileFile {
  std::string name;
  size_t bytes = 0;
  AcceleratorProfile profile;
};

std::vector<ProfileFile> LoadAll() {
  std::vector<ProfileFile> files;
  for (const server::EmbeddedFile& file : server::EmbeddedProfiles()) {
    ProfileFile& loaded = files.emplace_back();
    loaded.name = std::string(file.name);
    loaded.bytes = file.content.size();
    google::protobuf::util::JsonParseOptions strict;
    strict.ignore_unknown_fields = false;
    const auto status = google::protobuf::util::JsonStringToMessage(std::string(file.content),
                                                                    &loaded.profile, strict);
    EXPECT_TRUE(status.ok()) << file.name << ": " << status.ToString();
  }
  return files;
}

TEST(ProfilesTest, EmbeddedFilesEqualTheFilesOnDisk) {
  std::set<std::string> embedded;
  for (const server::EmbeddedFile& file : server::EmbeddedProfiles()) {
    const std::string path =
        absl::StrCat(HAPMOE_SOURCE_DIR, "/deploy/profiles/", std::string(file.name));
    std::ifstream stream(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(stream)),
                              std::istreambuf_iterator<char>());
    EXPECT_EQ(content, std::string(file.content)) << path;
    embedded.insert(std::string(file.name));
  }
  std::set<std::string> on_disk;
  for (const auto& entry :
       std::filesystem::directory_iterator(HAPMOE_SOURCE_DIR "/deploy/profiles")) {
    if (entry.path().extension() == ".json") on_disk.insert(entry.path().filename().string());
  }
  EXPECT_EQ(embedded, on_disk);
}

TEST(ProfilesTest, FileNameIsTheAcceleratorsNameInKebabCase) {
  for (const ProfileFile& file : LoadAll()) {
    std::string kebab = absl::AsciiStrToLower(file.profile.accelerator());
    for (char& c : kebab) {
      if (c == ' ') c = '-';
    }
    EXPECT_EQ(file.name, kebab + ".json");
    EXPECT_LE(file.bytes, 40u * 1024u) << file.name;
  }
}

TEST(ProfilesTest, NamesAndAliasesAreUniqueIgnoringCase) {
  std::map<std::string, std::string> owner;
  for (const ProfileFile& file : LoadAll()) {
    std::vector<std::string> names(file.profile.aliases().begin(), file.profile.aliases().end());
    names.push_back(file.profile.accelerator());
    for (const std::string& name : names) {
      EXPECT_FALSE(name.empty()) << file.name;
      EXPECT_LE(name.size(), 64u) << file.name;
      for (const char c : name) {
        EXPECT_TRUE(absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                    std::string(" -_.+").find(c) != std::string::npos)
            << file.name << ": " << name;
      }
      const auto [it, inserted] = owner.emplace(absl::AsciiStrToLower(name), file.name);
      EXPECT_TRUE(inserted) << "\"" << name << "\" is in " << it->second << " and " << file.name;
    }
  }
}

TEST(ProfilesTest, NamesThatPeopleUseResolve) {
  std::map<std::string, std::string> resolve;
  for (const ProfileFile& file : LoadAll()) {
    resolve[file.profile.accelerator()] = file.profile.accelerator();
    for (const std::string& alias : file.profile.aliases()) {
      resolve[alias] = file.profile.accelerator();
    }
  }
  const std::map<std::string, std::string> expected = {
      {"H100", "H100-SXM"},       {"H800", "H800-SXM"},      {"H200", "H200-SXM"},
      {"H20", "H20-96GB"},        {"A100", "A100-SXM-80GB"}, {"A100-40GB", "A100-SXM-40GB"},
      {"A800", "A800-SXM-80GB"},  {"B200", "B200-SXM"},      {"B300", "B300-SXM"},
      {"GB200", "GB200"},         {"GB300", "GB300"},        {"GH200", "GH200-96GB"},
      {"MI300X", "MI300X"},       {"MI325X", "MI325X"},      {"MI355X", "MI355X"},
      {"V100", "V100-SXM2-16GB"}, {"910B", "Ascend 910B3"},  {"Ascend 910B", "Ascend 910B3"},
      {"910B1", "Ascend 910B1"},  {"910B2", "Ascend 910B2"}, {"910B3", "Ascend 910B3"},
      {"910B4", "Ascend 910B4"},  {"910C", "Ascend 910C"},   {"T4", "T4"},
      {"L40S", "L40S"},           {"RTX 4090", "RTX 4090"}};
  for (const auto& [alias, name] : expected) EXPECT_EQ(resolve[alias], name) << alias;
}

// Appends "field: fault" for a figure that is not set, not in range, or not sourced.
void CheckFigure(const std::string& field, bool set, const Figure& figure, double low, double high,
                 std::vector<std::string>& faults) {
  if (!set) {
    faults.push_back(field + ": not given");
    return;
  }
  if (!(figure.value() >= low && figure.value() <= high)) {
    faults.push_back(
        absl::StrCat(field, ": ", figure.value(), " is not in [", low, ", ", high, "]"));
  }
  if (figure.source().empty()) faults.push_back(field + ": no source");
  if (figure.confidence() == v1::CONFIDENCE_UNSPECIFIED)
    faults.push_back(field + ": no confidence");
}

TEST(ProfilesTest, EveryFigureIsSourcedAndPlausible) {
  for (const ProfileFile& file : LoadAll()) {
    const AcceleratorProfile& p = file.profile;
    std::vector<std::string> faults;
    const auto check = [&faults](const char* field, bool set, const Figure& figure, double low,
                                 double high) {
      CheckFigure(field, set, figure, low, high, faults);
    };
    EXPECT_THAT(p.vendor(), testing::AnyOf("NVIDIA", "AMD", "Huawei")) << file.name;
    EXPECT_FALSE(p.architecture().empty()) << file.name;

    // A training accelerator has at least one of the two half-precision rates.
    EXPECT_TRUE(p.compute().has_bf16_flops_per_second() || p.compute().has_fp16_flops_per_second())
        << file.name;
    if (p.compute().has_bf16_flops_per_second()) {
      check("bf16", true, p.compute().bf16_flops_per_second(), 50e12, 5000e12);
    }
    if (p.compute().has_fp16_flops_per_second()) {
      check("fp16", true, p.compute().fp16_flops_per_second(), 50e12, 5000e12);
    }
    if (p.compute().has_fp8_flops_per_second()) {
      check("fp8", true, p.compute().fp8_flops_per_second(), 100e12, 10000e12);
    }
    if (p.compute().has_fp32_flops_per_second()) {
      check("fp32", true, p.compute().fp32_flops_per_second(), 5e12, 1000e12);
    }

    check("capacity", p.memory().has_capacity_bytes(), p.memory().capacity_bytes(), 14 * kGib,
          300 * kGib);
    check("memory bandwidth", p.memory().has_bytes_per_second(), p.memory().bytes_per_second(),
          300e9, 10e12);
    check("context", p.memory().has_context_bytes(), p.memory().context_bytes(), 0.5 * kGib,
          8 * kGib);
    check("allocator slack", p.memory().has_allocator_slack_ratio(),
          p.memory().allocator_slack_ratio(), 0, 0.5);

    const auto& up = p.scale_up();
    check("scale-up", up.has_bytes_per_second(), up.bytes_per_second(), 10e9, 2e12);
    check("scale-up pair", up.has_pair_bytes_per_second(), up.pair_bytes_per_second(), 10e9,
          up.bytes_per_second().value());
    check("scale-up latency", up.has_latency_seconds(), up.latency_seconds(), 1e-7, 1e-4);
    check("domain", up.has_domain_accelerators(), up.domain_accelerators(), 1, 1024);
    EXPECT_EQ(up.domain_accelerators().value(), std::floor(up.domain_accelerators().value()));

    check("network", p.network().has_bytes_per_second(), p.network().bytes_per_second(), 0.1e9,
          200e9);
    check("network latency", p.network().has_latency_seconds(), p.network().latency_seconds(), 1e-6,
          1e-3);
    EXPECT_LE(p.network().bytes_per_second().value(), up.bytes_per_second().value()) << file.name;

    const auto& e = p.efficiency();
    check("matrix ratio", e.has_matrix_ratio(), e.matrix_ratio(), 0.3, 0.95);
    check("matrix half", e.has_matrix_half_flops(), e.matrix_half_flops(), 1e8, 1e11);
    check("attention forward", e.has_attention_forward_ratio(), e.attention_forward_ratio(), 0.2,
          0.9);
    check("attention backward", e.has_attention_backward_ratio(), e.attention_backward_ratio(),
          0.15, e.attention_forward_ratio().value());
    check("memory ratio", e.has_memory_ratio(), e.memory_ratio(), 0.4, 0.95);
    check("scale-up ratio", e.has_scale_up_ratio(), e.scale_up_ratio(), 0.2, 1);
    check("network ratio", e.has_network_ratio(), e.network_ratio(), 0.4, 1);
    check("kernel", e.has_kernel_seconds(), e.kernel_seconds(), 1e-6, 1e-4);
    EXPECT_THAT(faults, testing::IsEmpty()) << file.name;
  }
}

TEST(ProfilesTest, TablesAreSourcedLicensedAndOfDistinctShapes) {
  int tables = 0;
  for (const ProfileFile& file : LoadAll()) {
    for (const v1::OperationTable& table : file.profile.tables()) {
      SCOPED_TRACE(file.name + " " + v1::OperationKind_Name(table.kind()));
      ++tables;
      EXPECT_FALSE(table.source().empty());
      EXPECT_FALSE(table.licence().empty());
      EXPECT_EQ(table.sustained_ratio() > 0, !table.sustained_source().empty());
      // A table that says nothing about its error says nothing.
      EXPECT_GT(table.stated_error(), 0);
      EXPECT_LT(table.stated_error(), 0.5);
      std::set<std::vector<int64_t>> shapes;
      for (int i = 0; i < table.microseconds_size(); ++i) {
        EXPECT_TRUE(shapes.insert({table.m(i), table.n(i), table.k(i), table.groups(i)}).second);
      }
    }
  }
  EXPECT_GE(tables, 30);
}

}  // namespace
}  // namespace hapmoe
