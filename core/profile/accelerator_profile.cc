#include "core/profile/accelerator_profile.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hapmoe::profile {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxAliases = 32;
constexpr size_t kMaxSamples = 100000;
constexpr int64_t kMaxDimension = int64_t{1} << 40;
constexpr int64_t kMaxDomain = 1 << 20;
constexpr double kMaxRate = 1e21;  // Far above any accelerator; catches units that are off.
constexpr double kMaxSeconds = 3600;
// Below any accelerator; smaller figures would make times that mean nothing.
constexpr double kMinRate = 1e6;
constexpr double kMinRatio = 1e-3;
// A clock above its nominal rate may beat the data sheet by so much.
constexpr double kPeakTolerance = 1.1;

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name.front() == ' ' || name.back() == ' ') {
    return false;
  }
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        absl::string_view(" -_.+").find(c) == absl::string_view::npos) {
      return false;
    }
  }
  return true;
}

// Collects the faults of one profile. Fields are paths of the wire message.
class Checker {
 public:
  void Add(absl::string_view rule, absl::string_view field, std::string message) {
    violations_.push_back({std::string(rule), absl::StrCat("profile.", field), std::move(message)});
  }

  void Positive(double value, absl::string_view field, double limit) {
    if (value >= kMinRate && value <= limit) return;
    Add("figure_in_range", field,
        absl::StrCat("Must be given, at least ", kMinRate, " and at most ", limit, ", not ", value,
                     "."));
  }

  void NotNegative(double value, absl::string_view field, double limit) {
    if (std::isfinite(value) && value >= 0 && value <= limit) return;
    Add("figure_not_negative", field,
        absl::StrCat("Must be at least 0 and at most ", limit, ", not ", value, "."));
  }

  void Ratio(double value, absl::string_view field) {
    if (value >= kMinRatio && value <= 1) return;
    Add("ratio_in_range", field,
        absl::StrCat("Must be at least ", kMinRatio, " and at most 1, not ", value, "."));
  }

  void Names(const AcceleratorProfile& profile) {
    if (!IsName(profile.name)) {
      Add("profile_name_valid", "accelerator",
          absl::StrCat("A name has 1 to ", kMaxNameBytes,
                       " letters, digits, spaces and \"-_.+\", and no space at either end."));
    }
    if (profile.aliases.size() > kMaxAliases) {
      Add("profile_aliases_in_range", "aliases",
          absl::StrCat("At most ", kMaxAliases, " aliases, not ", profile.aliases.size(), "."));
      return;
    }
    std::set<std::string> seen = {absl::AsciiStrToLower(profile.name)};
    for (size_t i = 0; i < profile.aliases.size(); ++i) {
      const std::string field = absl::StrCat("aliases[", i, "]");
      if (!IsName(profile.aliases[i])) {
        Add("profile_name_valid", field,
            absl::StrCat("An alias has 1 to ", kMaxNameBytes,
                         " letters, digits, spaces and \"-_.+\", and no space at either end."));
      } else if (!seen.insert(absl::AsciiStrToLower(profile.aliases[i])).second) {
        Add("profile_alias_unique", field,
            absl::StrCat("\"", profile.aliases[i], "\" is listed twice, or is the name itself."));
      }
    }
    if (profile.vendor.empty() || profile.vendor.size() > kMaxNameBytes) {
      Add("profile_vendor_given", "vendor",
          absl::StrCat("The vendor has 1 to ", kMaxNameBytes, " bytes."));
    }
    if (profile.architecture.size() > kMaxNameBytes) {
      Add("profile_architecture_short", "architecture",
          absl::StrCat("The architecture has at most ", kMaxNameBytes, " bytes."));
    }
  }

  void Samples(const AcceleratorProfile& profile) {
    if (profile.samples.size() > kMaxSamples) {
      Add("profile_samples_in_range", "samples",
          absl::StrCat("At most ", kMaxSamples, " samples, not ", profile.samples.size(), "."));
      return;
    }
    for (size_t i = 0; i < profile.samples.size(); ++i) {
      const Sample& sample = profile.samples[i];
      const std::string field = absl::StrCat("samples[", i, "]");
      for (const auto& [value, name] : {std::pair{sample.m, ".m"},
                                        {sample.n, ".n"},
                                        {sample.k, ".k"},
                                        {sample.groups, ".groups"}}) {
        if (value < 1 || value > kMaxDimension) {
          Add("sample_size_in_range", absl::StrCat(field, name),
              absl::StrCat("Must be at least 1 and at most ", kMaxDimension, ", not ", value, "."));
        }
      }
      if (!(std::isfinite(sample.seconds) && sample.seconds > 0 && sample.seconds <= kMaxSeconds)) {
        Add("sample_seconds_in_range", absl::StrCat(field, ".seconds"),
            absl::StrCat("Must be above 0 and at most ", kMaxSeconds, ", not ", sample.seconds,
                         "."));
      }
      const std::optional<double> peak = profile.PeakFlops(sample.precision);
      // 2 m n k operations; those of attention depend on its mask, which a sample does not say.
      const double flops = 2.0 * static_cast<double>(sample.m) * static_cast<double>(sample.n) *
                           static_cast<double>(sample.k);
      if (peak.has_value() && *peak > 0 && sample.seconds > 0 &&
          sample.kind != SampleKind::kAttention &&
          flops > *peak * kPeakTolerance * sample.seconds) {
        Add("sample_within_peak", absl::StrCat(field, ".seconds"),
            absl::StrCat("This sample computes ", flops / sample.seconds,
                         " operations a second, more than the peak of ", *peak, "."));
      }
      if (!peak.has_value()) {
        Add("sample_precision_supported", absl::StrCat(field, ".precision"),
            "The profile gives no peak rate for the precision of this sample.");
      }
    }
  }

  Violations Take() { return std::move(violations_); }

 private:
  Violations violations_;
};

}  // namespace

std::optional<double> AcceleratorProfile::PeakFlops(MatrixPrecision precision) const {
  switch (precision) {
    case MatrixPrecision::kBf16:
      return bf16_flops_per_second;
    case MatrixPrecision::kFp16:
      return fp16_flops_per_second;
    case MatrixPrecision::kFp8:
      return fp8_flops_per_second;
    case MatrixPrecision::kFp32:
      return fp32_flops_per_second;
  }
  return std::nullopt;
}

Violations Validate(const AcceleratorProfile& profile) {
  Checker checker;
  checker.Names(profile);
  int rates = 0;
  for (const auto& [rate, field] : {std::pair{profile.bf16_flops_per_second, "bf16"},
                                    {profile.fp16_flops_per_second, "fp16"},
                                    {profile.fp8_flops_per_second, "fp8"},
                                    {profile.fp32_flops_per_second, "fp32"}}) {
    if (!rate.has_value()) continue;
    ++rates;
    checker.Positive(*rate, absl::StrCat("compute.", field, "_flops_per_second"), kMaxRate);
  }
  if (rates == 0) {
    checker.Add("compute_rate_given", "compute",
                "At least one peak arithmetic rate must be given.");
  }
  checker.Positive(profile.memory_bytes, "memory.capacity_bytes", kMaxRate);
  checker.Positive(profile.memory_bytes_per_second, "memory.bytes_per_second", kMaxRate);
  checker.NotNegative(profile.context_bytes, "memory.context_bytes", kMaxRate);
  checker.NotNegative(profile.allocator_slack_ratio, "memory.allocator_slack_ratio", 1);
  if (profile.context_bytes >= profile.memory_bytes && profile.memory_bytes > 0) {
    checker.Add("context_below_capacity", "memory.context_bytes",
                absl::StrCat("The context takes ", profile.context_bytes, " of ",
                             profile.memory_bytes, " bytes: nothing is left."));
  }
  checker.Positive(profile.scale_up_bytes_per_second, "scale_up.bytes_per_second", kMaxRate);
  checker.Positive(profile.scale_up_pair_bytes_per_second, "scale_up.pair_bytes_per_second",
                   kMaxRate);
  checker.NotNegative(profile.scale_up_latency_seconds, "scale_up.latency_seconds", kMaxSeconds);
  if (profile.scale_up_domain < 1 || profile.scale_up_domain > kMaxDomain) {
    checker.Add("scale_up_domain_in_range", "scale_up.domain_accelerators",
                absl::StrCat("Must be at least 1 and at most ", kMaxDomain, ", not ",
                             profile.scale_up_domain, "."));
  }
  checker.Positive(profile.network_bytes_per_second, "network.bytes_per_second", kMaxRate);
  checker.NotNegative(profile.network_latency_seconds, "network.latency_seconds", kMaxSeconds);
  checker.Ratio(profile.matrix_ratio, "efficiency.matrix_ratio");
  checker.NotNegative(profile.matrix_half_flops, "efficiency.matrix_half_flops", kMaxRate);
  checker.Ratio(profile.attention_forward_ratio, "efficiency.attention_forward_ratio");
  checker.Ratio(profile.attention_backward_ratio, "efficiency.attention_backward_ratio");
  checker.Ratio(profile.memory_ratio, "efficiency.memory_ratio");
  checker.Ratio(profile.scale_up_ratio, "efficiency.scale_up_ratio");
  checker.Ratio(profile.network_ratio, "efficiency.network_ratio");
  checker.NotNegative(profile.kernel_seconds, "efficiency.kernel_seconds", kMaxSeconds);
  checker.NotNegative(profile.launch_seconds, "efficiency.launch_seconds", kMaxSeconds);
  checker.Samples(profile);
  return checker.Take();
}

}  // namespace hapmoe::profile
