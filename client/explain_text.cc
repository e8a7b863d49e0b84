#include "client/explain_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plan_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr auto kRight = TextTable::Align::kRight;

void AddPlan(const char* name, const v1::ExecutionPlan& plan, const v1::Prediction& prediction,
             TextTable& table) {
  table.AddRow(
      {name, SecondsText(prediction.iteration_seconds()),
       absl::StrCat(DegreesText(plan), ", micro-batch ", plan.micro_batch_size(), "; layers ",
                    LayersText(plan), prediction.fits() ? "" : "; DOES NOT FIT")});
}

std::string DifferenceText(double seconds) {
  return absl::StrCat(seconds < 0 ? "-" : "+", SecondsText(std::abs(seconds)));
}

std::string TermsText(const v1::ExplainResponse& response) {
  TextTable table({kLeft, kRight, kRight, kRight});
  table.AddRow({"", "Best", "Layout", "Difference"});
  const auto add = [&table](const std::string& name, double best, double layout) {
    if (best == 0 && layout == 0) return;
    table.AddRow({name, SecondsText(best), SecondsText(layout), DifferenceText(layout - best)});
  };
  for (const v1::TermDifference& term : response.terms()) {
    add(Printable(term.term()), term.best_seconds(), term.layout_seconds());
  }
  add("iteration", response.best().prediction().iteration_seconds(),
      response.layout_prediction().iteration_seconds());
  return table.Render(2);
}

}  // namespace

std::string ExplanationText(const v1::ExplainResponse& response) {
  TextTable plans({kLeft, kRight, kLeft});
  AddPlan("Best plan", response.best().plan(), response.best().prediction(), plans);
  if (response.has_layout()) {
    AddPlan("Layout", response.layout(), response.layout_prediction(), plans);
  }
  std::string text = absl::StrCat(plans.Render(0), "\n");
  for (const std::string& sentence : response.sentences()) {
    absl::StrAppend(&text, "- ", Printable(sentence), "\n");
  }
  for (const v1::LayoutFault& fault : response.layout_faults()) {
    absl::StrAppend(&text, "  ", Printable(fault.field()), " [", Printable(fault.rule()), "]\n");
  }
  if (!response.terms().empty()) {
    absl::StrAppend(&text, "\nTime, on the busiest stage of each:\n", TermsText(response));
  }
  return text;
}

std::string AlternativesText(const v1::PlanAnswer& answer) {
  if (answer.alternatives().empty()) return "";
  TextTable table({kRight, kRight, kLeft});
  table.AddRow({"Iteration", "Times", "What differs"});
  for (const v1::Alternative& alternative : answer.alternatives()) {
    table.AddRow({SecondsText(alternative.prediction().iteration_seconds()),
                  absl::StrFormat("%.3f", alternative.slowdown_ratio()),
                  Printable(alternative.kind())});
  }
  return absl::StrCat("Alternatives:\n", table.Render(2));
}

}  // namespace hapmoe::client
