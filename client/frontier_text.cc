#include "client/frontier_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/plan_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

using Points = google::protobuf::RepeatedPtrField<v1::FrontierPoint>;

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr auto kRight = TextTable::Align::kRight;

// A line for each point; "*" marks those on the Pareto front.
std::string PointsText(const Points& points) {
  const bool priced = std::any_of(points.begin(), points.end(),
                                  [](const auto& point) { return point.price_per_hour() > 0; });
  const bool plans =
      std::any_of(points.begin(), points.end(), [](const auto& point) { return point.has_plan(); });
  std::vector<TextTable::Align> columns = {kLeft,  kLeft,  kRight, kRight, kRight,
                                           kRight, kRight, kRight, kRight};
  std::vector<std::string> heading = {"",         "Allocation", "Accelerators", "Used", "Iteration",
                                      "Tokens/s", "Peak GiB",   "Headroom",     "Gap"};
  if (priced) {
    columns.insert(columns.end(), {kRight, kRight});
    heading.insert(heading.end(), {"Price/h", "Tokens/price"});
  }
  if (plans) {
    columns.push_back(kLeft);
    heading.push_back("Plan");
  }
  TextTable table(columns);
  table.AddRow(heading);
  std::string without;
  for (const v1::FrontierPoint& point : points) {
    const std::string allocation = AllocationText(point.allocation());
    std::vector<std::string> row = {point.on_pareto_front() ? "*" : "", allocation,
                                    CountText(point.accelerators())};
    if (point.iteration_seconds() > 0) {
      row.insert(row.end(),
                 {CountText(point.accelerators_used()), SecondsText(point.iteration_seconds()),
                  CountText(static_cast<int64_t>(point.tokens_per_second())),
                  GibibytesText(static_cast<double>(point.device_memory_bytes())),
                  PercentText(point.memory_headroom_ratio()), PercentText(point.gap_ratio())});
      if (priced) {
        row.insert(row.end(), {absl::StrFormat("%.4g", point.price_per_hour()),
                               absl::StrFormat("%.4g", point.tokens_per_price())});
      }
      if (plans) row.push_back(point.has_plan() ? DegreesText(point.plan()) : "");
    } else {
      row.insert(row.end(), {"", "-"});
      absl::StrAppend(&without, "  ", allocation, ": ", Printable(point.why()), "\n");
    }
    table.AddRow(row);
  }
  std::string text = table.Render(0);
  if (std::any_of(points.begin(), points.end(),
                  [](const auto& point) { return point.on_pareto_front(); })) {
    absl::StrAppend(&text,
                    "* on the Pareto front of iteration time, peak memory and accelerators used\n");
  }
  if (!without.empty()) absl::StrAppend(&text, "\nWithout a plan:\n", without);
  return text;
}

}  // namespace

std::string AllocationText(const google::protobuf::RepeatedPtrField<v1::PoolNodes>& allocation) {
  std::vector<std::string> pools;
  for (const v1::PoolNodes& pool : allocation) {
    pools.push_back(absl::StrCat(Printable(pool.pool()), " ", CountOf(pool.nodes(), "node")));
  }
  return absl::StrJoin(pools, ", ");
}

std::string FrontierText(const v1::FrontierResponse& response) {
  std::string text = PointsText(response.points());
  const v1::SearchStatistics& statistics = response.statistics();
  absl::StrAppend(
      &text, "\n", CountOf(response.points_size(), "point"), ", ",
      CountText(statistics.candidates_opened()), " of ",
      CountOf(statistics.candidates(), "candidate"), " opened; ",
      SecondsText(statistics.search_cpu_seconds()), " of processor time",
      response.limit() == v1::Termination::LIMIT_NONE ? "" : LimitText(response.limit()), "\n");
  return text;
}

std::string ChoiceText(const v1::AllocationChoice& choice) {
  return absl::StrCat("Allocation: ", AllocationText(choice.allocation()),
                      choice.proven() ? "" : " (not proven)", "\n  ", Printable(choice.why()),
                      "\n\n", PointsText(choice.points()));
}

}  // namespace hapmoe::client
