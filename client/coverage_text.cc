#include "client/coverage_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr auto kRight = TextTable::Align::kRight;

// "grouped_gemm" for OPERATION_KIND_GROUPED_GEMM.
std::string Word(const std::string& name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string KindWord(v1::OperationKind kind) {
  return Word(v1::OperationKind_Name(kind), "OPERATION_KIND_");
}

std::string PrecisionWord(v1::Precision precision) {
  return Word(v1::Precision_Name(precision), "PRECISION_");
}

// "256..32,768", or one number.
template <typename Column>
std::string RangeText(const Column& column) {
  if (column.empty()) return "";
  const auto [least, most] = std::minmax_element(column.begin(), column.end());
  const auto text = [](auto value) { return CountText(static_cast<int64_t>(value)); };
  if (*least == *most) return text(*least);
  return absl::StrCat(text(*least), "..", text(*most));
}

std::string OperationsText(const v1::AcceleratorProfile& profile) {
  if (profile.tables().empty()) return "No operation is measured; times are calculated.\n";
  TextTable table({kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kLeft});
  table.AddRow({"Measured", "Precision", "Samples", "m", "n", "k", "Groups", "Error", "Source"});
  for (const v1::OperationTable& from : profile.tables()) {
    table.AddRow({KindWord(from.kind()), PrecisionWord(from.precision()),
                  CountText(from.microseconds_size()), RangeText(from.m()), RangeText(from.n()),
                  RangeText(from.k()), RangeText(from.groups()),
                  absl::StrFormat("%.1f %%", 100 * from.stated_error()), Printable(from.source())});
  }
  return table.Render(0);
}

std::string CollectivesText(const v1::AcceleratorProfile& profile) {
  if (profile.collectives().empty()) {
    return "No collective is measured; times are calculated from bandwidths.\n";
  }
  TextTable table({kLeft, kRight, kRight, kRight, kRight, kLeft});
  table.AddRow({"Measured", "Ranks", "Points", "Bytes", "Error", "Source"});
  for (const v1::CollectiveCurve& curve : profile.collectives()) {
    // Where no point was held out, nothing says how good the lines are.
    const std::string error = curve.held_bytes().empty()
                                  ? "not said"
                                  : absl::StrFormat("%.1f %%", 100 * curve.error_bound());
    table.AddRow({Word(v1::CollectivePrimitive_Name(curve.primitive()), "COLLECTIVE_PRIMITIVE_"),
                  CountText(curve.ranks()), CountText(curve.bytes_size()), RangeText(curve.bytes()),
                  error, Printable(curve.source())});
  }
  return table.Render(0);
}

// Element types that share their tables, as the planner reads them.
struct Width {
  const char* name;
  std::vector<v1::Precision> precisions;
  bool supported;  // The data sheet has a matrix rate for it.
};

std::vector<Width> Widths(const v1::ComputeFigures& compute) {
  return {{"16 bit",
           {v1::PRECISION_BF16, v1::PRECISION_FP16},
           compute.has_bf16_flops_per_second() || compute.has_fp16_flops_per_second()},
          {"8 bit", {v1::PRECISION_FP8}, compute.has_fp8_flops_per_second()}};
}

// As many as fit a screen beside the rest.
constexpr int kWorstOperations = 12;

std::string SizeText(int64_t size) { return size > 0 ? CountText(size) : ""; }

bool IsAttention(v1::OperationKind kind) {
  return kind == v1::OPERATION_KIND_ATTENTION || kind == v1::OPERATION_KIND_ATTENTION_BACKWARD;
}

}  // namespace

std::string MeasuredText(const v1::AcceleratorProfile& profile) {
  return absl::StrCat(OperationsText(profile), CollectivesText(profile));
}

std::string UnmeasuredText(const v1::AcceleratorProfile& profile) {
  std::string text;
  for (const Width& width : Widths(profile.compute())) {
    if (!width.supported) continue;
    std::vector<std::string> kinds;
    for (int number = v1::OperationKind_MIN; number <= v1::OperationKind_MAX; ++number) {
      if (!v1::OperationKind_IsValid(number) || number == v1::OPERATION_KIND_UNSPECIFIED) continue;
      const auto kind = static_cast<v1::OperationKind>(number);
      // Attention stays in 16 bit where a job trains in 8.
      if (width.precisions.front() == v1::PRECISION_FP8 && IsAttention(kind)) continue;
      const auto measures = [&](const v1::OperationTable& table) {
        return table.kind() == kind && table.microseconds_size() > 0 &&
               std::count(width.precisions.begin(), width.precisions.end(), table.precision()) > 0;
      };
      if (std::none_of(profile.tables().begin(), profile.tables().end(), measures)) {
        kinds.push_back(KindWord(kind));
      }
    }
    if (kinds.empty()) continue;
    absl::StrAppend(&text, "Not measured in ", width.name, ": ", absl::StrJoin(kinds, ", "), "\n");
  }
  return text;
}

std::string BasisText(const v1::Prediction& prediction) {
  const v1::Basis& basis = prediction.basis();
  TextTable table({kLeft, kRight});
  table.AddRow({"measured shapes", PercentText(basis.measured_ratio())});
  table.AddRow({"between measured shapes", PercentText(basis.interpolated_ratio())});
  table.AddRow({"calculated", PercentText(basis.analytic_ratio())});
  table.AddRow({"communication", PercentText(basis.communication_ratio())});
  table.AddRow({"host launches", PercentText(basis.launch_ratio())});
  std::string text = absl::StrCat("An iteration of ", SecondsText(prediction.iteration_seconds()));
  if (prediction.high_iteration_seconds() > 0) {
    absl::StrAppend(&text, " (", SecondsText(prediction.low_iteration_seconds()), " to ",
                    SecondsText(prediction.high_iteration_seconds()), ")");
  }
  absl::StrAppend(&text, " rests on\n", table.Render(2));
  return text;
}

std::string WorstCoveredText(const v1::EvaluateResponse& response) {
  if (response.operations().empty()) return "";
  TextTable table({kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kLeft});
  table.AddRow({"Least measured", "m", "n", "k", "Groups", "Time", "Measured", "Between",
                "Calculated", "On"});
  const int rows = std::min(kWorstOperations, response.operations_size());
  for (int i = 0; i < rows; ++i) {
    const v1::OperationCoverage& one = response.operations(i);
    const double calculated = 1 - one.measured_ratio() - one.interpolated_ratio();
    table.AddRow({Printable(one.operation()), SizeText(one.m()), SizeText(one.n()),
                  SizeText(one.k()), SizeText(one.groups()), PercentText(one.time_ratio()),
                  PercentText(one.measured_ratio()), PercentText(one.interpolated_ratio()),
                  PercentText(calculated > 0 ? calculated : 0), Printable(one.accelerator())});
  }
  return table.Render(0);
}

}  // namespace hapmoe::client
