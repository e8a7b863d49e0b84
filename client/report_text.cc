#include "client/report_text.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/plan_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

using Align = TextTable::Align;

// Below it a report is as good as set aside.
constexpr double kLittleWeight = 0.05;
// A factor that moved less is as it was.
constexpr double kLittleChange = 0.0005;

}  // namespace

std::string ReportText(const v1::ReportIterationResponse& response) {
  const v1::StoredReport& stored = response.stored();
  std::string text = absl::StrCat(
      "Report ", Printable(stored.name()), ": ", SecondsText(stored.report().iteration_seconds()),
      " measured, ", SecondsText(response.predicted_before_seconds()), " predicted before, ");
  if (response.fit_pending()) {
    absl::StrAppend(&text, "its correction follows\n");
    return text;
  }
  absl::StrAppend(&text, SecondsText(stored.corrected_seconds()), " from now on\n");
  if (stored.weight() < kLittleWeight) {
    absl::StrAppend(&text,
                    "It is set aside: it is too far from all that is known, and counts once other "
                    "reports agree.\n");
  }
  return text;
}

std::string ReportListText(const v1::ListReportsResponse& response) {
  TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight,
                   Align::kRight, Align::kLeft});
  table.AddRow({"Name", "Measured", "Seconds", "Profiles", "Corrected", "Weight", "Plan"});
  for (const v1::StoredReport& stored : response.reports()) {
    const v1::IterationReport& report = stored.report();
    const std::string id = report.plan_id().empty() ? report.plan().plan_id() : report.plan_id();
    const bool known = stored.predicted_seconds() > 0;
    table.AddRow(
        {Printable(stored.name()),
         absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(report.measured_at().seconds()),
                          absl::UTCTimeZone()),
         absl::StrFormat("%.4g", report.iteration_seconds()),
         known ? absl::StrFormat("%.4g", stored.predicted_seconds()) : "-",
         known ? absl::StrFormat("%.4g", stored.corrected_seconds()) : "-",
         known ? absl::StrFormat("%.2f", stored.weight()) : "-",
         id.empty() ? "the job's own layout" : Printable(id)});
  }
  return table.Render(0);
}

std::string CorrectionsText(const v1::ListCorrectionsResponse& response) {
  if (response.corrections().empty()) return "No reports: predictions are those of the profiles.\n";
  TextTable table({Align::kLeft, Align::kRight, Align::kLeft, Align::kRight, Align::kRight});
  table.AddRow({"Accelerator", "Reports", "Term", "Factor", "Error"});
  for (const v1::AcceleratorCorrections& type : response.corrections()) {
    bool first = true;
    for (const v1::CorrectionFactor& factor : type.factors()) {
      if (std::abs(factor.factor() - 1) < kLittleChange) continue;
      table.AddRow({first ? Printable(type.accelerator()) : "",
                    first ? absl::StrCat(type.reports()) : "", Printable(factor.term()),
                    absl::StrFormat("%.3f", factor.factor()), PercentText(factor.error())});
      first = false;
    }
    if (first) {
      table.AddRow({Printable(type.accelerator()), absl::StrCat(type.reports()), "none", "1", ""});
    }
  }
  return table.Render(0);
}

}  // namespace hapmoe::client
