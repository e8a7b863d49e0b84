#include "tests/bench/paper/tables.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hapmoe::bench {
namespace {

std::string Ratio(std::optional<double> ratio) {
  return ratio.has_value() ? absl::StrFormat("%.2f", *ratio) : "-";
}

// Names of the first comparison's entries: all of one kind of cluster have the same.
std::vector<std::string> NamesOf(const std::vector<Other>& others) {
  std::vector<std::string> names;
  for (const Other& other : others) names.push_back(other.name);
  return names;
}

std::string Row(const std::string& first, const std::vector<std::string>& cells) {
  std::string row = absl::StrFormat("  %-14s", first);
  for (const std::string& cell : cells) absl::StrAppendFormat(&row, "%18s", cell);
  return row + "\n";
}

std::optional<double> GeometricMean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

}  // namespace

std::string TimesTable(const std::vector<Comparison>& comparisons, bool mixed) {
  std::string table;
  for (const Comparison& comparison : comparisons) {
    if (comparison.mixed != mixed) continue;
    std::vector<std::string> names = NamesOf(comparison.others);
    if (table.empty()) {
      std::vector<std::string> heads = {"ours, s", "gap"};
      heads.insert(heads.end(), names.begin(), names.end());
      table = Row("cluster", heads);
    }
    std::vector<std::string> cells = {
        absl::StrFormat("%.3f%s", comparison.seconds(),
                        comparison.runs.front().offloads ? " (offload)" : ""),
        absl::StrFormat("%.2f%%", comparison.runs.front().gap_ratio * 100)};
    for (const std::string& name : names) {
      cells.push_back(Ratio(Slowdown(comparison, comparison.others, name)));
    }
    table += Row(comparison.cluster, cells);
  }
  return table;
}

std::optional<double> ThroughputOverUniform(const std::vector<Comparison>& comparisons,
                                            const std::string& name) {
  std::vector<double> ratios;
  for (const Comparison& comparison : comparisons) {
    if (!comparison.mixed) continue;
    const auto uniform = Slowdown(comparison, comparison.others, "uniform");
    const auto method =
        name == "ours" ? std::optional(1.0) : Slowdown(comparison, comparison.others, name);
    if (uniform.has_value() && method.has_value()) ratios.push_back(*uniform / *method);
  }
  return GeometricMean(ratios);
}

std::string ThroughputTable(const Model& model, const std::vector<Comparison>& comparisons) {
  std::vector<std::string> names;
  for (const Comparison& comparison : comparisons) {
    if (comparison.mixed) names = NamesOf(comparison.others);
  }
  names.push_back("ours");
  std::string table = Row("method", {"over uniform", "paper, over MI"});
  for (const std::string& name : names) {
    std::string printed = name == "uniform" ? "1.00" : "-";
    for (const PrintedThroughput& paper : model.printed) {
      if (paper.method == name) printed = absl::StrFormat("%.2f", paper.over_hand_tuned);
    }
    table += Row(name, {Ratio(ThroughputOverUniform(comparisons, name)), printed});
  }
  return table;
}

std::string AblationTable(const std::vector<Comparison>& comparisons) {
  std::string table;
  for (const Comparison& comparison : comparisons) {
    std::vector<std::string> names = NamesOf(comparison.ablations);
    if (table.empty()) {
      std::vector<std::string> heads = names;
      heads.push_back("paper, PP/DP off");
      table = Row("cluster", heads);
    }
    std::vector<std::string> cells;
    for (const std::string& name : names) {
      cells.push_back(Ratio(Slowdown(comparison, comparison.ablations, name)));
    }
    cells.push_back(Ratio(comparison.printed_uniform_latency));
    table += Row(comparison.cluster, cells);
  }
  return table;
}

std::string SearchTable(const std::vector<Comparison>& comparisons) {
  std::vector<std::string> heads;
  for (const Variant& variant : Variants()) {
    heads.push_back(variant.name + ", CPU ms");
    heads.push_back("opened");
    if (&variant != &Variants().front()) heads.push_back("time over exact");
  }
  heads.push_back("certificate, us");
  std::string table = Row("cluster", heads);
  for (const Comparison& comparison : comparisons) {
    std::vector<std::string> cells;
    for (const SearchRun& run : comparison.runs) {
      cells.push_back(absl::StrFormat("%.1f", run.cpu_seconds * 1e3));
      cells.push_back(absl::StrCat(run.opened));
      if (&run != &comparison.runs.front()) {
        cells.push_back(Ratio(run.iteration_seconds / comparison.seconds()));
      }
    }
    cells.push_back(absl::StrFormat("%.0f", comparison.runs.front().certificate_cpu_seconds * 1e6));
    table += Row(comparison.cluster, cells);
  }
  return table;
}

std::vector<std::string> AheadOfOurs(const std::vector<Comparison>& comparisons) {
  std::vector<std::string> ahead;
  for (const Comparison& comparison : comparisons) {
    for (const std::vector<Other>* others : {&comparison.others, &comparison.ablations}) {
      for (const Other& other : *others) {
        if (!other.seconds.has_value() || *other.seconds >= comparison.seconds() * (1 - 1e-9)) {
          continue;
        }
        ahead.push_back(absl::StrFormat("%s takes %.6f s on %s and ours %.6f s", other.name,
                                        *other.seconds, comparison.cluster, comparison.seconds()));
      }
    }
  }
  return ahead;
}

}  // namespace hapmoe::bench
