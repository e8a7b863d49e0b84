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
constexpr size_t kMaxTables = 64;
// Every sample is looked at for every time that is asked for.
constexpr size_t kMaxSamples = 2000;
constexpr size_t kMaxFaultsOfTable = 20;
constexpr int64_t kMaxLayerSize = 1 << 24;
constexpr double kMaxDimension = 1e12;
constexpr double kMaxDepthHalf = 1e6;
constexpr double kMaxError = 10;  // Of logarithms.
constexpr double kErrorRounding = 1e-3;
constexpr int64_t kMaxDomain = 1 << 20;
constexpr double kMaxRate = 1e21;  // Far above any accelerator; catches units that are off.
constexpr double kMaxSeconds = 3600;
// Below any accelerator; smaller figures would make times that mean nothing.
constexpr double kMinRate = 1e6;
constexpr double kMinRatio = 1e-3;
// A clock above its nominal rate may beat the data sheet by so much.
constexpr double kPeakTolerance = 1.1;
constexpr double kMaxContention = 10;

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

  void Tables(const AcceleratorProfile& profile) {
    if (profile.tables.size() > kMaxTables) {
      Add("profile_tables_in_range", "tables",
          absl::StrCat("At most ", kMaxTables, " tables, not ", profile.tables.size(), "."));
      return;
    }
    for (size_t i = 0; i < profile.tables.size(); ++i) {
      Table(profile, profile.tables[i], absl::StrCat("tables[", i, "]"));
    }
  }

  void Layers(const AcceleratorProfile& profile) {
    if (profile.layers.size() > kMaxTables) {
      Add("profile_layers_in_range", "layers",
          absl::StrCat("At most ", kMaxTables, " tables, not ", profile.layers.size(), "."));
      return;
    }
    for (size_t i = 0; i < profile.layers.size(); ++i) {
      Layer(profile, profile.layers[i], absl::StrCat("layers[", i, "]"));
      for (size_t j = 0; j < i; ++j) {
        if (!profile.layers[j].shape().Matches(profile.layers[i].shape())) continue;
        Add("layer_shape_unique", absl::StrCat("layers[", i, "]"),
            absl::StrCat("layers[", j, "] is of the same shape: only one could answer."));
        break;
      }
    }
  }

  void Factor(double value, absl::string_view field) {
    if (value >= 1 && value <= kMaxContention) return;
    Add("contention_in_range", field,
        absl::StrCat("Must be at least 1 and at most ", kMaxContention, ", not ", value, "."));
  }

  void Collectives(const AcceleratorProfile& profile) {
    Factor(profile.scale_up_contention, "contention.scale_up_factor");
    Factor(profile.network_contention, "contention.network_factor");
    for (Violation& violation :
         profile.collectives.Check(profile.scale_up_bytes_per_second * kPeakTolerance)) {
      Add(violation.rule, violation.field, std::move(violation.message));
    }
  }

  Violations Take() { return std::move(violations_); }

 private:
  void Table(const AcceleratorProfile& profile, const OperationTable& table,
             const std::string& field) {
    const size_t before = violations_.size();
    const BaseFit& fit = table.fit();
    Ratio(fit.peak_ratio, field + ".peak_ratio");
    Ratio(fit.traffic_ratio, field + ".traffic_ratio");
    Ratio(fit.sustained_ratio, field + ".sustained_ratio");
    NotNegative(fit.quantised_ratio, field + ".quantised_ratio", 1);
    NotNegative(fit.depth_half, field + ".depth_half", kMaxDepthHalf);
    NotNegative(fit.fixed_seconds, field + ".fixed_seconds", kMaxSeconds);
    NotNegative(table.stated_error(), field + ".stated_error", kMaxError);
    const OperationTable::Samples& samples = table.samples();
    if (samples.shapes.size() > kMaxSamples) {
      Add("profile_samples_in_range", field,
          absl::StrCat("At most ", kMaxSamples, " samples, not ", samples.shapes.size(), "."));
      return;
    }
    const std::optional<double> peak = profile.PeakFlops(table.precision());
    if (!peak.has_value()) {
      Add("table_precision_supported", field + ".precision",
          "The profile gives no peak rate for the precision of this table.");
      return;
    }
    for (size_t i = 0; i < samples.shapes.size(); ++i) {
      Sample(table, samples.shapes[i], samples.seconds[i], *peak, field, i);
      if (violations_.size() > before + kMaxFaultsOfTable) return;
    }
    if (violations_.size() > before) return;
    const double error = table.LeaveOneOutError();
    if (!(error <= table.stated_error() + kErrorRounding)) {
      Add("table_keeps_stated_error", field + ".stated_error",
          absl::StrCat("The table states an error of ", table.stated_error(),
                       ", but its samples predict each other with one of ", error, "."));
    }
  }

  void Layer(const AcceleratorProfile& profile, const LayerTable& table, const std::string& field) {
    const size_t before = violations_.size();
    const LayerShape& shape = table.shape();
    for (const auto& [value, name] : {std::pair{shape.hidden, ".hidden_size"},
                                      {shape.ffn_hidden, ".ffn_hidden_size"},
                                      {shape.heads, ".attention_heads"},
                                      {shape.query_groups, ".query_groups"},
                                      {shape.seq_length, ".sequence_length"}}) {
      if (value >= 1 && value <= kMaxLayerSize) continue;
      Add("layer_size_in_range", field + name,
          absl::StrCat("Must be at least 1 and at most ", kMaxLayerSize, ", not ", value, "."));
    }
    const std::optional<double> peak = profile.PeakFlops(shape.precision);
    if (!peak.has_value()) {
      Add("table_precision_supported", field + ".precision",
          "The profile gives no peak rate for the precision of this table.");
    }
    if (table.samples().empty() || table.samples().size() > kMaxSamples) {
      Add("layer_samples_in_range", field,
          absl::StrCat("At least 1 and at most ", kMaxSamples, " samples, not ",
                       table.samples().size(), "."));
    }
    if (violations_.size() > before) return;
    if (shape.hidden % shape.heads != 0 || shape.heads % shape.query_groups != 0) {
      Add("layer_heads_divide", field + ".attention_heads",
          "Heads must divide the hidden size, and query groups the heads.");
      return;
    }
    std::set<std::pair<int64_t, int64_t>> seen;
    for (size_t i = 0; i < table.samples().size(); ++i) {
      LayerTime(shape, table.samples()[i], *peak, field, i);
      if (!seen.emplace(table.samples()[i].tp, table.samples()[i].micro_batch).second) {
        Add("layer_sample_unique", absl::StrCat(field, ".micro_batch[", i, "]"),
            "This degree and micro-batch are listed before.");
      }
      if (violations_.size() > before + kMaxFaultsOfTable) return;
    }
  }

  void LayerTime(const LayerShape& shape, const LayerSample& sample, double peak,
                 const std::string& field, size_t index) {
    const size_t before = violations_.size();
    for (const auto& [value, name] :
         {std::pair{sample.tp, ".tensor_parallel["}, {sample.micro_batch, ".micro_batch["}}) {
      if (value >= 1 && value <= kMaxLayerSize) continue;
      Add("layer_sample_in_range", absl::StrCat(field, name, index, "]"),
          absl::StrCat("Must be at least 1 and at most ", kMaxLayerSize, ", not ", value, "."));
    }
    for (const auto& [seconds, name] : {std::pair{sample.forward_seconds, ".forward_microseconds["},
                                        {sample.backward_seconds, ".backward_microseconds["}}) {
      if (std::isfinite(seconds) && seconds > 0 && seconds <= kMaxSeconds) continue;
      Add("sample_seconds_in_range", absl::StrCat(field, name, index, "]"),
          absl::StrCat("Must be above 0 and at most ", kMaxSeconds * 1e6, ", not ", seconds * 1e6,
                       "."));
    }
    if (violations_.size() > before) return;
    // The backward pass computes twice as much.
    const double rate = 3 * LayerFlops(shape, sample.micro_batch) / static_cast<double>(sample.tp) /
                        (sample.forward_seconds + sample.backward_seconds);
    if (peak > 0 && rate > peak * kPeakTolerance) {
      Add("sample_within_peak", absl::StrCat(field, ".forward_microseconds[", index, "]"),
          absl::StrCat("This layer computes ", rate, " operations a second, more than the peak of ",
                       peak, "."));
    }
  }

  void Sample(const OperationTable& table, const OperationShape& shape, double seconds, double peak,
              const std::string& field, size_t index) {
    for (const auto& [value, name] : {std::pair{shape.m, ".m["},
                                      {shape.n, ".n["},
                                      {shape.k, ".k["},
                                      {shape.groups, ".groups["}}) {
      if (value >= 1 && value <= kMaxDimension) continue;
      Add("sample_size_in_range", absl::StrCat(field, name, index, "]"),
          absl::StrCat("Must be at least 1 and at most ", kMaxDimension, ", not ", value, "."));
    }
    const std::string at = absl::StrCat(field, ".microseconds[", index, "]");
    if (!(std::isfinite(seconds) && seconds > 0 && seconds <= kMaxSeconds)) {
      Add("sample_seconds_in_range", at,
          absl::StrCat("Must be above 0 and at most ", kMaxSeconds * 1e6, ", not ", seconds * 1e6,
                       "."));
      return;
    }
    const double flops = Flops(table.kind(), shape);
    if (peak > 0 && flops > peak * kPeakTolerance * seconds) {
      Add("sample_within_peak", at,
          absl::StrCat("This sample computes ", flops / seconds,
                       " operations a second, more than the peak of ", peak, "."));
    }
  }

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

const OperationTable* AcceleratorProfile::FindTable(TableKind kind,
                                                    MatrixPrecision precision) const {
  const auto half = [](MatrixPrecision p) {
    return p == MatrixPrecision::kBf16 || p == MatrixPrecision::kFp16;
  };
  for (const OperationTable& table : tables) {
    if (table.kind() != kind) continue;
    if (table.precision() == precision || (half(table.precision()) && half(precision))) {
      return &table;
    }
  }
  return nullptr;
}

std::optional<LayerTimes> AcceleratorProfile::FindLayer(const LayerShape& shape, int64_t tp,
                                                        int64_t micro_batch) const {
  for (const LayerTable& table : layers) {
    if (table.shape().Matches(shape)) return table.At(tp, micro_batch);
  }
  return std::nullopt;
}

std::optional<Chip> AcceleratorProfile::ChipFor(MatrixPrecision precision) const {
  const std::optional<double> peak = PeakFlops(precision);
  if (!peak.has_value()) return std::nullopt;
  return Chip{.flops_per_second = *peak,
              .memory_bytes_per_second = memory_bytes_per_second,
              .processors = processors};
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
  if (profile.bridge.has_value()) {
    checker.Positive(profile.bridge->bytes_per_second, "scale_up.bridge_bytes_per_second",
                     kMaxRate);
    if (profile.bridge->island < 1 || profile.bridge->island > kMaxDomain) {
      checker.Add("island_in_range", "scale_up.island_accelerators",
                  absl::StrCat("Must be at least 1 and at most ", kMaxDomain, ", not ",
                               profile.bridge->island, "."));
    } else if (profile.scale_up_domain > 0 &&
               profile.scale_up_domain % profile.bridge->island != 0) {
      checker.Add(
          "islands_fill_domain", "scale_up.island_accelerators",
          absl::StrCat("Must divide the ", profile.scale_up_domain,
                       " accelerators of a domain, which ", profile.bridge->island, " do not."));
    }
  }
  checker.Positive(profile.network_bytes_per_second, "network.bytes_per_second", kMaxRate);
  checker.NotNegative(profile.network_latency_seconds, "network.latency_seconds", kMaxSeconds);
  checker.Positive(profile.host_link_bytes_per_second, "host.link_bytes_per_second", kMaxRate);
  checker.Positive(profile.host_memory_bytes_per_second, "host.memory_bytes_per_second", kMaxRate);
  checker.Ratio(profile.matrix_ratio, "efficiency.matrix_ratio");
  checker.NotNegative(profile.matrix_half_flops, "efficiency.matrix_half_flops", kMaxRate);
  checker.Ratio(profile.attention_forward_ratio, "efficiency.attention_forward_ratio");
  checker.Ratio(profile.attention_backward_ratio, "efficiency.attention_backward_ratio");
  checker.Ratio(profile.memory_ratio, "efficiency.memory_ratio");
  checker.Ratio(profile.scale_up_ratio, "efficiency.scale_up_ratio");
  checker.Ratio(profile.network_ratio, "efficiency.network_ratio");
  checker.NotNegative(profile.kernel_seconds, "efficiency.kernel_seconds", kMaxSeconds);
  checker.NotNegative(profile.launch_seconds, "efficiency.launch_seconds", kMaxSeconds);
  if (!(profile.processors >= 1 && profile.processors <= kMaxDomain)) {
    checker.Add("processors_in_range", "compute.multiprocessors",
                absl::StrCat("Must be at least 1 and at most ", kMaxDomain, ", not ",
                             profile.processors, "."));
  }
  checker.Tables(profile);
  checker.Layers(profile);
  checker.Collectives(profile);
  return checker.Take();
}

}  // namespace hapmoe::profile
