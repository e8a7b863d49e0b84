#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using profile::AcceleratorProfile;
using profile::MatrixPrecision;
using profile::SampleKind;

std::optional<double> RateFromWire(bool given, const v1::Figure& figure) {
  return given ? std::optional<double>(figure.value()) : std::nullopt;
}

// A whole number, or -1, which no count may be.
int64_t CountFromWire(const v1::Figure& figure) {
  const double value = figure.value();
  return value >= 0 && value < 1e15 && value == std::floor(value) ? static_cast<int64_t>(value)
                                                                  : -1;
}

std::optional<SampleKind> KindFromWire(v1::OperationKind kind) {
  switch (kind) {
    case v1::OPERATION_KIND_GEMM:
      return SampleKind::kGemm;
    case v1::OPERATION_KIND_GROUPED_GEMM:
      return SampleKind::kGroupedGemm;
    case v1::OPERATION_KIND_ATTENTION:
      return SampleKind::kAttention;
    default:
      return std::nullopt;
  }
}

std::optional<MatrixPrecision> PrecisionFromWire(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_BF16:
      return MatrixPrecision::kBf16;
    case v1::PRECISION_FP16:
      return MatrixPrecision::kFp16;
    case v1::PRECISION_FP8:
      return MatrixPrecision::kFp8;
    case v1::PRECISION_FP32:
      return MatrixPrecision::kFp32;
    default:
      return std::nullopt;
  }
}

void SamplesFromWire(const v1::AcceleratorProfile& wire, AcceleratorProfile& profile,
                     Violations& violations) {
  profile.samples.reserve(wire.samples_size());
  for (int i = 0; i < wire.samples_size(); ++i) {
    const v1::OperationSample& from = wire.samples(i);
    const std::optional<SampleKind> kind = KindFromWire(from.kind());
    const std::optional<MatrixPrecision> precision = PrecisionFromWire(from.precision());
    if (!kind.has_value()) {
      violations.push_back({"sample_kind_given", absl::StrCat("profile.samples[", i, "].kind"),
                            absl::StrCat("Not an operation that is known: ", from.kind(), ".")});
    }
    if (!precision.has_value()) {
      violations.push_back(
          {"sample_precision_given", absl::StrCat("profile.samples[", i, "].precision"),
           absl::StrCat("Not a precision that is known: ", from.precision(), ".")});
    }
    profile::Sample sample;
    sample.kind = kind.value_or(SampleKind::kGemm);
    sample.precision = precision.value_or(MatrixPrecision::kBf16);
    sample.m = from.m();
    sample.n = from.n();
    sample.k = from.k();
    sample.groups = from.groups() == 0 ? 1 : from.groups();
    sample.seconds = from.seconds();
    profile.samples.push_back(sample);
  }
}

}  // namespace

AcceleratorProfile ProfileFromWire(const v1::AcceleratorProfile& wire, Violations& violations) {
  AcceleratorProfile profile;
  profile.name = wire.accelerator();
  profile.aliases.assign(wire.aliases().begin(), wire.aliases().end());
  profile.vendor = wire.vendor();
  profile.architecture = wire.architecture();

  const v1::ComputeFigures& compute = wire.compute();
  profile.bf16_flops_per_second =
      RateFromWire(compute.has_bf16_flops_per_second(), compute.bf16_flops_per_second());
  profile.fp16_flops_per_second =
      RateFromWire(compute.has_fp16_flops_per_second(), compute.fp16_flops_per_second());
  profile.fp8_flops_per_second =
      RateFromWire(compute.has_fp8_flops_per_second(), compute.fp8_flops_per_second());
  profile.fp32_flops_per_second =
      RateFromWire(compute.has_fp32_flops_per_second(), compute.fp32_flops_per_second());

  profile.memory_bytes = wire.memory().capacity_bytes().value();
  profile.memory_bytes_per_second = wire.memory().bytes_per_second().value();
  profile.context_bytes = wire.memory().context_bytes().value();
  profile.allocator_slack_ratio = wire.memory().allocator_slack_ratio().value();

  const v1::ScaleUpFigures& scale_up = wire.scale_up();
  profile.scale_up_bytes_per_second = scale_up.bytes_per_second().value();
  // Behind a switch one pair can use all of an accelerator's links.
  profile.scale_up_pair_bytes_per_second = scale_up.has_pair_bytes_per_second()
                                               ? scale_up.pair_bytes_per_second().value()
                                               : profile.scale_up_bytes_per_second;
  profile.scale_up_latency_seconds = scale_up.latency_seconds().value();
  profile.scale_up_domain = CountFromWire(scale_up.domain_accelerators());

  profile.network_bytes_per_second = wire.network().bytes_per_second().value();
  profile.network_latency_seconds = wire.network().latency_seconds().value();

  const v1::EfficiencyFigures& efficiency = wire.efficiency();
  profile.matrix_ratio = efficiency.matrix_ratio().value();
  profile.matrix_half_flops = efficiency.matrix_half_flops().value();
  profile.attention_forward_ratio = efficiency.attention_forward_ratio().value();
  profile.attention_backward_ratio = efficiency.attention_backward_ratio().value();
  profile.memory_ratio = efficiency.memory_ratio().value();
  profile.scale_up_ratio = efficiency.scale_up_ratio().value();
  profile.network_ratio = efficiency.network_ratio().value();
  profile.kernel_seconds = efficiency.kernel_seconds().value();
  profile.launch_seconds = efficiency.launch_seconds().value();

  SamplesFromWire(wire, profile, violations);
  if (wire.notes().size() > kMaxNotesBytes) {
    violations.push_back(
        {"profile_notes_short", "profile.notes",
         absl::StrCat("At most ", kMaxNotesBytes, " bytes, not ", wire.notes().size(), ".")});
  }
  for (Violation& violation : profile::Validate(profile))
    violations.push_back(std::move(violation));
  return profile;
}

}  // namespace hapmoe::server
