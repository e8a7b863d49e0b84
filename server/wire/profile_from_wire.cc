#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using profile::AcceleratorProfile;
using profile::BaseFit;
using profile::CollectivePrimitive;
using profile::MatrixPrecision;
using profile::TableKind;

std::optional<double> RateFromWire(bool given, const v1::Figure& figure) {
  return given ? std::optional<double>(figure.value()) : std::nullopt;
}

// A whole number; a fault where the figure is none, and 1 to go on with.
int64_t CountFromWire(const v1::Figure& figure, const std::string& field, Violations& violations) {
  const double value = figure.value();
  if (std::abs(value) < 1e15 && value == std::floor(value)) return static_cast<int64_t>(value);
  violations.push_back(
      {"whole_number", field, absl::StrCat("Must be a whole number, not ", value, ".")});
  return 1;
}

std::optional<TableKind> KindFromWire(v1::OperationKind kind) {
  switch (kind) {
    case v1::OPERATION_KIND_GEMM:
      return TableKind::kGemm;
    case v1::OPERATION_KIND_GROUPED_GEMM:
      return TableKind::kGroupedGemm;
    case v1::OPERATION_KIND_ATTENTION:
      return TableKind::kAttention;
    case v1::OPERATION_KIND_ATTENTION_BACKWARD:
      return TableKind::kAttentionBackward;
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

// What a table that leaves its fit open takes from the profile.
BaseFit FitFromWire(const v1::OperationTable& wire, TableKind kind,
                    const AcceleratorProfile& profile) {
  double ratio = profile.matrix_ratio;
  if (kind == TableKind::kAttention) ratio = profile.attention_forward_ratio;
  if (kind == TableKind::kAttentionBackward) ratio = profile.attention_backward_ratio;
  BaseFit fit;
  fit.peak_ratio = wire.peak_ratio() == 0 ? ratio : wire.peak_ratio();
  fit.quantised_ratio = wire.quantised_ratio();
  fit.depth_half = wire.depth_half();
  fit.fixed_seconds = wire.fixed_seconds();
  fit.sustained_ratio = wire.sustained_ratio() == 0 ? 1 : wire.sustained_ratio();
  fit.includes_cast = wire.includes_cast();
  fit.traffic_ratio = wire.traffic_ratio() == 0 ? profile.memory_ratio : wire.traffic_ratio();
  return fit;
}

void TablesFromWire(const v1::AcceleratorProfile& wire, AcceleratorProfile& profile,
                    Violations& violations) {
  for (int t = 0; t < wire.tables_size(); ++t) {
    const v1::OperationTable& from = wire.tables(t);
    const std::string field = absl::StrCat("profile.tables[", t, "]");
    const std::optional<TableKind> kind = KindFromWire(from.kind());
    const std::optional<MatrixPrecision> precision = PrecisionFromWire(from.precision());
    if (!kind.has_value()) {
      violations.push_back({"table_kind_given", field + ".kind",
                            absl::StrCat("Not an operation that is known: ", from.kind(), ".")});
    }
    if (!precision.has_value()) {
      violations.push_back(
          {"table_precision_given", field + ".precision",
           absl::StrCat("Not a precision that is known: ", from.precision(), ".")});
    }
    const int count = from.microseconds_size();
    if (from.m_size() != count || from.n_size() != count || from.k_size() != count ||
        from.groups_size() != count) {
      violations.push_back(
          {"table_columns_equal", field,
           absl::StrCat("Columns must be of equal length, not ", from.m_size(), ", ", from.n_size(),
                        ", ", from.k_size(), ", ", from.groups_size(), " and ", count, ".")});
      continue;
    }
    if (!kind.has_value() || !precision.has_value()) continue;
    profile::OperationTable::Samples samples;
    for (int i = 0; i < count; ++i) {
      samples.shapes.push_back({static_cast<double>(from.m(i)), static_cast<double>(from.n(i)),
                                static_cast<double>(from.k(i)),
                                static_cast<double>(from.groups(i))});
      samples.seconds.push_back(from.microseconds(i) * 1e-6);
    }
    // A precision that is not supported is refused by the profile's validation.
    profile.tables.emplace_back(*kind, *precision, FitFromWire(from, *kind, profile),
                                profile.ChipFor(*precision).value_or(profile::Chip{}),
                                std::move(samples), from.stated_error(), from.source());
  }
}

void LayersFromWire(const v1::AcceleratorProfile& wire, AcceleratorProfile& profile,
                    Violations& violations) {
  for (int t = 0; t < wire.layers_size(); ++t) {
    const v1::LayerTable& from = wire.layers(t);
    const std::string field = absl::StrCat("profile.layers[", t, "]");
    const std::optional<MatrixPrecision> precision = PrecisionFromWire(from.precision());
    if (!precision.has_value()) {
      violations.push_back(
          {"table_precision_given", field + ".precision",
           absl::StrCat("Not a precision that is known: ", from.precision(), ".")});
    }
    const int count = from.forward_microseconds_size();
    if (from.tensor_parallel_size() != count || from.micro_batch_size() != count ||
        from.backward_microseconds_size() != count) {
      violations.push_back(
          {"table_columns_equal", field,
           absl::StrCat("Columns must be of equal length, not ", from.tensor_parallel_size(), ", ",
                        from.micro_batch_size(), ", ", count, " and ",
                        from.backward_microseconds_size(), ".")});
      continue;
    }
    if (!precision.has_value()) continue;
    std::vector<profile::LayerSample> samples;
    samples.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      samples.push_back({from.tensor_parallel(i), from.micro_batch(i),
                         from.forward_microseconds(i) * 1e-6,
                         from.backward_microseconds(i) * 1e-6});
    }
    const profile::LayerShape shape = {.hidden = from.hidden_size(),
                                       .ffn_hidden = from.ffn_hidden_size(),
                                       .gated_mlp = from.gated_mlp(),
                                       .heads = from.attention_heads(),
                                       .query_groups = from.query_groups(),
                                       .seq_length = from.sequence_length(),
                                       .precision = *precision};
    profile.layers.emplace_back(shape, std::move(samples), from.includes_tensor_communication(),
                                from.source());
  }
}

std::optional<CollectivePrimitive> PrimitiveFromWire(v1::CollectivePrimitive primitive) {
  switch (primitive) {
    case v1::COLLECTIVE_PRIMITIVE_ALL_GATHER:
      return CollectivePrimitive::kAllGather;
    case v1::COLLECTIVE_PRIMITIVE_REDUCE_SCATTER:
      return CollectivePrimitive::kReduceScatter;
    case v1::COLLECTIVE_PRIMITIVE_ALL_REDUCE:
      return CollectivePrimitive::kAllReduce;
    case v1::COLLECTIVE_PRIMITIVE_ALL_TO_ALL:
      return CollectivePrimitive::kAllToAll;
    case v1::COLLECTIVE_PRIMITIVE_SEND_RECEIVE:
      return CollectivePrimitive::kSendReceive;
    default:
      return std::nullopt;
  }
}

void CollectivesFromWire(const v1::AcceleratorProfile& wire, AcceleratorProfile& profile,
                         Violations& violations) {
  std::vector<profile::CollectiveCurve> curves;
  curves.reserve(static_cast<size_t>(wire.collectives_size()));
  for (int i = 0; i < wire.collectives_size(); ++i) {
    const v1::CollectiveCurve& from = wire.collectives(i);
    const std::optional<CollectivePrimitive> primitive = PrimitiveFromWire(from.primitive());
    if (!primitive.has_value()) {
      violations.push_back(
          {"collective_primitive_given", absl::StrCat("profile.collectives[", i, "].primitive"),
           absl::StrCat("Not a collective that is known: ", from.primitive(), ".")});
    }
    profile::CollectiveCurve curve;
    curve.primitive = primitive.value_or(CollectivePrimitive::kAllGather);
    curve.ranks = from.ranks();
    curve.bytes.assign(from.bytes().begin(), from.bytes().end());
    curve.seconds.assign(from.seconds().begin(), from.seconds().end());
    curve.held_bytes.assign(from.held_bytes().begin(), from.held_bytes().end());
    curve.held_seconds.assign(from.held_seconds().begin(), from.held_seconds().end());
    curve.error_bound = from.error_bound();
    curves.push_back(std::move(curve));
  }
  profile.collectives = profile::CollectiveCurves(std::move(curves));
  const v1::ContentionFigures& contention = wire.contention();
  if (contention.has_scale_up_factor()) {
    profile.scale_up_contention = contention.scale_up_factor().value();
  }
  if (contention.has_network_factor()) {
    profile.network_contention = contention.network_factor().value();
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

  if (compute.has_multiprocessors()) profile.processors = compute.multiprocessors().value();

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
  profile.scale_up_domain = CountFromWire(scale_up.domain_accelerators(),
                                          "profile.scale_up.domain_accelerators", violations);
  profile.scale_up_crosses_nodes = scale_up.crosses_nodes();
  if (scale_up.has_island_accelerators() || scale_up.has_bridge_bytes_per_second()) {
    const int64_t island = CountFromWire(scale_up.island_accelerators(),
                                         "profile.scale_up.island_accelerators", violations);
    profile.bridge = profile::Bridge{island, scale_up.bridge_bytes_per_second().value()};
  }

  profile.network_bytes_per_second = wire.network().bytes_per_second().value();
  profile.network_latency_seconds = wire.network().latency_seconds().value();

  const v1::HostFigures& host = wire.host();
  if (host.has_link_bytes_per_second()) {
    profile.host_link_bytes_per_second = host.link_bytes_per_second().value();
  }
  if (host.has_memory_bytes_per_second()) {
    profile.host_memory_bytes_per_second = host.memory_bytes_per_second().value();
  }

  const v1::EfficiencyFigures& efficiency = wire.efficiency();
  profile.matrix_ratio = efficiency.matrix_ratio().value();
  profile.matrix_half_flops = efficiency.matrix_half_flops().value();
  profile.fused_attention = !compute.no_fused_attention();
  profile.attention_forward_ratio = efficiency.attention_forward_ratio().value();
  profile.attention_backward_ratio = efficiency.attention_backward_ratio().value();
  profile.memory_ratio = efficiency.memory_ratio().value();
  profile.scale_up_ratio = efficiency.scale_up_ratio().value();
  profile.network_ratio = efficiency.network_ratio().value();
  profile.kernel_seconds = efficiency.kernel_seconds().value();
  profile.launch_seconds = efficiency.launch_seconds().value();

  TablesFromWire(wire, profile, violations);
  LayersFromWire(wire, profile, violations);
  CollectivesFromWire(wire, profile, violations);
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
