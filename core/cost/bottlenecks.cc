#include "core/cost/bottlenecks.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/cost/evaluate.h"

namespace hapmoe::cost {
namespace {

using profile::AcceleratorProfile;
using profile::Term;

// What is said when it saves this share of an iteration.
constexpr double kWorthSaying = 0.1;
constexpr double kGigabit = 1e9 / 8;

// A problem whose profiles may be changed. Its own memory of products, because their tables are
// copies.
struct Variant {
  explicit Variant(const Problem& original) : problem(original) {
    problem.products = std::make_shared<ProductMemo>();
    for (auto& one : problem.profiles) {
      profiles.push_back(std::make_shared<AcceleratorProfile>(*one));
      one = profiles.back();
    }
  }

  void Scale(Term term, double factor) {
    for (const auto& one : profiles) one->corrections.set(term, one->corrections.of(term) * factor);
  }

  void ScaleLinks(double factor) {
    for (cluster::Link& link : problem.cluster.links) {
      if (link.network.bytes_per_second.has_value()) *link.network.bytes_per_second *= factor;
    }
  }

  Problem problem;
  std::vector<std::shared_ptr<AcceleratorProfile>> profiles;
};

// "400 Gb/s", or "400 or 200 Gb/s".
std::string RatesText(const std::vector<double>& bytes_per_second) {
  std::vector<std::string> rates;
  for (const double rate : bytes_per_second) {
    std::string text = absl::StrFormat("%.3g", rate / kGigabit);
    if (std::find(rates.begin(), rates.end(), text) == rates.end()) rates.push_back(text);
  }
  return absl::StrCat(absl::StrJoin(rates, " or "), " Gb/s");
}

// What the network gives an accelerator of the plan's pools.
std::string NetworkRates(const Problem& problem, const plan::Plan& plan) {
  std::vector<double> rates;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto pool = static_cast<size_t>(mesh.pool);
    rates.push_back(problem.cluster.pools[pool].network.bytes_per_second.value_or(
        problem.profiles[pool]->network_bytes_per_second));
  }
  return RatesText(rates);
}

std::string LinkRates(const Problem& problem) {
  std::vector<double> rates;
  for (const cluster::Link& link : problem.cluster.links) {
    if (link.network.bytes_per_second.has_value()) {
      rates.push_back(*link.network.bytes_per_second);
    }
  }
  return RatesText(rates);
}

}  // namespace

std::vector<std::string> Bottlenecks(const Problem& problem, const plan::Plan& plan,
                                     const Prediction& prediction) {
  std::vector<std::string> sentences;
  const double seconds = prediction.iteration_seconds;
  // Nothing that takes less than a tenth can save a tenth.
  const TimeBreakdown& time = prediction.time;
  if (seconds - time.compute_seconds - time.optimizer_seconds < kWorthSaying * seconds) {
    return sentences;
  }
  Variant variant(problem);
  const auto say = [&](const std::string& head) {
    const auto variation = Evaluate(variant.problem, plan);
    const double faster = variation.ok() ? variation->iteration_seconds : seconds;
    if (seconds - faster < kWorthSaying * seconds) return;
    sentences.push_back(absl::StrFormat(
        "%s: were it twice as fast, an iteration would take %.*f s instead of %.*f, %.0f %% less.",
        head, seconds < 1 ? 3 : 2, faster, seconds < 1 ? 3 : 2, seconds,
        100 * (seconds - faster) / seconds));
  };
  const auto say_of = [&](Term term, const std::string& head) {
    variant.Scale(term, 0.5);
    say(head);
    variant.Scale(term, 2);
  };
  say_of(Term::kNetwork, absl::StrCat("The network between nodes holds the plan up at ",
                                      NetworkRates(problem, plan), " for each accelerator"));
  if (plan.meshes.size() > 1 && !problem.cluster.links.empty()) {
    variant.ScaleLinks(2);
    say(absl::StrCat("The link between pools holds the plan up at ", LinkRates(problem),
                     " for each accelerator"));
    variant.ScaleLinks(0.5);
  }
  say_of(Term::kScaleUp, "The fabric inside nodes holds the plan up");
  say_of(Term::kHost,
         "The host holds the plan up, it issues operations slower than the accelerators run them "
         "(CUDA graphs or larger micro-batches would help)");
  return sentences;
}

}  // namespace hapmoe::cost
