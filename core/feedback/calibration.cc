#include "core/feedback/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "core/cost/compute_time.h"
#include "core/cost/evaluate.h"

namespace hapmoe::feedback {
namespace {

using profile::AcceleratorProfile;
using profile::Corrections;
using profile::kTerms;
using profile::Term;
using ProfilePtr = std::shared_ptr<const AcceleratorProfile>;

// Times and memory have no term in common, so that they are fitted apart.
struct TermRange {
  size_t first = 0;
  size_t count = 0;
};
constexpr TermRange kTimeTerms = {0, static_cast<size_t>(Term::kActivations)};
constexpr TermRange kMemoryTerms = {kTimeTerms.count, kTerms - kTimeTerms.count};

// Steps of the linearisation, and how far factors are moved to find slopes: far enough to see past
// the kinks of what is hidden beside something else.
constexpr int kMostRounds = 6;
constexpr double kNudge = 0.01;
constexpr double kSettled = 1e-10;
constexpr int kMostHalvings = 5;
// Reports that tell how far they lie apart, and the most that is made of it.
constexpr size_t kFewestForSpread = 5;
constexpr double kMostSpread = 3;
// Reports of less weight are set aside.
constexpr double kLittleWeight = 0.05;
// Median of the absolute value of a standard normal variable.
constexpr double kMedianOfNormal = 0.6745;

double Square(double x) { return x * x; }

// A figure of one observation that was measured.
struct Row {
  enum class Kind { kSeconds, kAllocated, kReserved };

  size_t observation = 0;
  Kind kind = Kind::kSeconds;
  double log_measured = 0;
  double deviation = 0;
};

double FigureOf(const cost::Prediction& prediction, Row::Kind kind) {
  switch (kind) {
    case Row::Kind::kSeconds:
      return prediction.iteration_seconds;
    case Row::Kind::kAllocated:
      return prediction.allocated_memory_bytes();
    case Row::Kind::kReserved:
      return prediction.reserved_memory_bytes();
  }
  return 0;
}

// The types that a plan runs on, each once, in the order of its meshes.
std::vector<ProfilePtr> TypesOf(const Observation& observation) {
  std::vector<ProfilePtr> types;
  for (const plan::Mesh& mesh : observation.plan.meshes) {
    const ProfilePtr& type = observation.problem->profiles[static_cast<size_t>(mesh.pool)];
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return types;
}

// Types that meet in plans, directly or by way of others, and the observations of them.
struct Component {
  std::vector<ProfilePtr> types;
  std::vector<size_t> observations;
};

std::vector<Component> ComponentsOf(const std::vector<Observation>& observations) {
  std::vector<Component> components;
  for (size_t i = 0; i < observations.size(); ++i) {
    Component joined;
    joined.types = TypesOf(observations[i]);
    for (size_t c = components.size(); c-- > 0;) {
      Component& other = components[c];
      const bool meet = std::any_of(other.types.begin(), other.types.end(), [&](const auto& type) {
        return std::find(joined.types.begin(), joined.types.end(), type) != joined.types.end();
      });
      if (!meet) continue;
      for (const ProfilePtr& type : other.types) {
        if (std::find(joined.types.begin(), joined.types.end(), type) == joined.types.end()) {
          joined.types.push_back(type);
        }
      }
      joined.observations.insert(joined.observations.end(), other.observations.begin(),
                                 other.observations.end());
      components.erase(components.begin() + static_cast<std::ptrdiff_t>(c));
    }
    joined.observations.push_back(i);
    components.push_back(std::move(joined));
  }
  // Sums are then the same whatever the order in which reports came.
  for (Component& component : components) {
    std::sort(component.types.begin(), component.types.end(),
              [](const ProfilePtr& a, const ProfilePtr& b) { return a->name < b->name; });
    std::sort(component.observations.begin(), component.observations.end(),
              [&](size_t a, size_t b) {
                const auto key = [&](size_t i) {
                  const Observation& one = observations[i];
                  return std::tie(one.run, one.seconds, one.allocated_bytes, one.reserved_bytes,
                                  one.age_days);
                };
                return key(a) < key(b);
              });
  }
  return components;
}

// Fits the factors of one component.
class Calibrator {
 public:
  Calibrator(const std::vector<Observation>& observations, const Component& component,
             const Interrupter& interrupter, const CalibrationErrors& errors,
             const FitOptions& options)
      : observations_(observations),
        component_(component),
        interrupter_(interrupter),
        errors_(errors),
        options_(options),
        factors_(component.types.size() * kTerms, 0) {
    for (const ProfilePtr& type : component.types) {
      TypeCalibration calibration;
      calibration.prior = PriorOf(*type, errors);
      calibration.posterior = calibration.prior;
      types_.push_back(std::move(calibration));
    }
  }

  // False, with nothing of use in `result`, where it was interrupted.
  bool Run(Calibration& result) {
    FitTerms(kTimeTerms, TimeRows(), &result.verdicts);
    FitTerms(kMemoryTerms, MemoryRows(), nullptr);
    if (stopped()) return false;
    for (size_t t = 0; t < types_.size(); ++t) {
      types_[t].corrections = CorrectionsAt(factors_, t);
      result.types.emplace(component_.types[t], std::move(types_[t]));
    }
    return true;
  }

 private:
  bool stopped() const { return interrupter_.tripped(); }

  std::vector<Row> TimeRows() {
    std::map<std::string, double> repeats;
    for (const size_t i : component_.observations) {
      if (observations_[i].seconds.has_value()) ++repeats[observations_[i].run];
    }
    std::vector<Row> rows;
    for (const size_t i : component_.observations) {
      const Observation& one = observations_[i];
      if (!one.seconds.has_value()) continue;
      // Reports of one run together know it to within what is peculiar to it, no better.
      const double variance =
          repeats[one.run] * Square(errors_.run) + Square(errors_.measurement) + Drift(one);
      rows.push_back({i, Row::Kind::kSeconds, std::log(*one.seconds), std::sqrt(variance)});
    }
    return rows;
  }

  std::vector<Row> MemoryRows() {
    std::map<std::string, double> repeats;
    const auto has_memory = [](const Observation& one) {
      return one.allocated_bytes.has_value() || one.reserved_bytes.has_value();
    };
    for (const size_t i : component_.observations) {
      if (has_memory(observations_[i])) ++repeats[observations_[i].run];
    }
    std::vector<Row> rows;
    for (const size_t i : component_.observations) {
      const Observation& one = observations_[i];
      if (!has_memory(one)) continue;
      const double deviation = std::sqrt(repeats[one.run] * Square(errors_.memory) + Drift(one));
      if (one.allocated_bytes.has_value()) {
        rows.push_back({i, Row::Kind::kAllocated, std::log(*one.allocated_bytes), deviation});
      }
      if (one.reserved_bytes.has_value()) {
        rows.push_back({i, Row::Kind::kReserved, std::log(*one.reserved_bytes), deviation});
      }
    }
    return rows;
  }

  double Drift(const Observation& one) const {
    return Square(errors_.year) * std::max(0.0, one.age_days) / 365;
  }

  Corrections CorrectionsAt(const std::vector<double>& factors, size_t type) const {
    Corrections corrections;
    for (size_t term = 0; term < kTerms; ++term) {
      corrections.set(static_cast<Term>(term), std::exp(factors[type * kTerms + term]));
    }
    return corrections;
  }

  // Logarithms of what is predicted for the rows with these logarithms of factors; of no use once
  // this is stopped.
  std::vector<double> PredictAt(const std::vector<double>& factors,
                                const std::vector<Row>& rows) const {
    std::map<const AcceleratorProfile*, ProfilePtr> corrected;
    for (size_t t = 0; t < component_.types.size(); ++t) {
      auto copy = std::make_shared<AcceleratorProfile>(*component_.types[t]);
      copy->corrections = CorrectionsAt(factors, t);
      corrected.emplace(component_.types[t].get(), std::move(copy));
    }
    std::vector<double> logs;
    cost::Prediction prediction;
    for (size_t r = 0; r < rows.size(); ++r) {
      if (stopped()) return std::vector<double>(rows.size(), 0);
      if (r == 0 || rows[r].observation != rows[r - 1].observation) {
        const Observation& one = observations_[rows[r].observation];
        cost::Problem problem = *one.problem;
        problem.products = nullptr;  // Those of other profiles.
        for (ProfilePtr& profile : problem.profiles) {
          const auto found = corrected.find(profile.get());
          if (found != corrected.end()) profile = found->second;
        }
        prediction = cost::Evaluate(problem, one.plan).value();
      }
      logs.push_back(std::log(FigureOf(prediction, rows[r].kind)));
    }
    return logs;
  }

  // All factors, with those of a range of terms replaced, type after type.
  std::vector<double> WithPart(const TermRange& range, const std::vector<double>& part) const {
    std::vector<double> whole = factors_;
    for (size_t i = 0; i < part.size(); ++i) {
      whole[i / range.count * kTerms + range.first + i % range.count] = part[i];
    }
    return whole;
  }

  std::vector<PriorBlock> Priors(const TermRange& range) const {
    std::vector<PriorBlock> blocks;
    for (size_t t = 0; t < types_.size(); ++t) {
      Matrix covariance(range.count);
      for (size_t row = 0; row < range.count; ++row) {
        for (size_t column = 0; column < range.count; ++column) {
          covariance.at(row, column) = types_[t].prior.at(range.first + row, range.first + column);
        }
      }
      blocks.push_back({t * range.count, Inverse(covariance)});
    }
    return blocks;
  }

  double TrueCost(const std::vector<double>& part, const std::vector<double>& predicted,
                  const std::vector<Row>& rows, const std::vector<PriorBlock>& priors) const {
    std::vector<double> residuals;
    std::vector<double> deviations;
    for (size_t r = 0; r < rows.size(); ++r) {
      residuals.push_back(rows[r].log_measured - predicted[r]);
      deviations.push_back(rows[r].deviation);
    }
    return CostOf(part, residuals, deviations, priors, options_);
  }

  // Gauss's and Newton's steps over the evaluator itself, each taken as far as it helps.
  void FitTerms(const TermRange& range, const std::vector<Row>& rows,
                std::vector<Calibration::Verdict>* verdicts) {
    if (rows.empty()) return;
    const Left left = FitOnce(range, rows, verdicts);
    if (stopped()) return;
    const double spread = SpreadOf(left, rows);
    if (spread > 1) {
      std::vector<Row> wider = rows;
      for (Row& row : wider) row.deviation *= spread;
      FitOnce(range, wider, verdicts);
    }
    for (TypeCalibration& type : types_) {
      (verdicts != nullptr ? type.spread : type.memory_spread) = spread;
    }
  }

  // What a fit left of each row, and how much it believes in it.
  struct Left {
    std::vector<double> residuals;
    std::vector<double> weights;
  };

  // How far reports that are believed lie apart over what their deviations say. Of few reports it
  // is not known; and it is told from one fit, since a wider one leaves more of each report.
  static double SpreadOf(const Left& left, const std::vector<Row>& rows) {
    std::vector<double> ratios;
    for (size_t r = 0; r < rows.size(); ++r) {
      if (left.weights[r] < kLittleWeight) continue;
      ratios.push_back(std::abs(left.residuals[r]) / rows[r].deviation);
    }
    if (ratios.size() < kFewestForSpread) return 1;
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>((ratios.size() - 1) / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return std::clamp(*middle / kMedianOfNormal, 1.0, kMostSpread);
  }

  // Nothing where this is stopped.
  Left FitOnce(const TermRange& range, const std::vector<Row>& rows,
               std::vector<Calibration::Verdict>* verdicts) {
    const std::vector<PriorBlock> priors = Priors(range);
    std::vector<double> part(types_.size() * range.count, 0);
    std::vector<double> predicted = PredictAt(WithPart(range, part), rows);
    const std::vector<double> uncorrected = predicted;
    double cost = TrueCost(part, predicted, rows, priors);
    std::vector<double> best_part = part;
    std::vector<double> best_predicted = predicted;
    double best_cost = cost;
    for (int round = 0; round < kMostRounds; ++round) {
      const Fit fit = FitRobustly(Linearised(range, part, predicted, rows), priors, part.size(),
                                  options_, &interrupter_);
      if (stopped()) return {};
      double moved = 0;
      for (size_t i = 0; i < part.size(); ++i) {
        moved = std::max(moved, std::abs(fit.unknowns[i] - part[i]));
      }
      if (moved < kSettled) break;
      bool better = false;
      double step = 1;
      for (int halving = 0; halving <= kMostHalvings && !better && !stopped();
           ++halving, step /= 2) {
        std::vector<double> next = part;
        for (size_t i = 0; i < part.size(); ++i) next[i] += step * (fit.unknowns[i] - part[i]);
        const std::vector<double> there = PredictAt(WithPart(range, next), rows);
        const double cost_there = TrueCost(next, there, rows, priors);
        if (cost_there >= cost) continue;
        better = true;
        part = std::move(next);
        predicted = there;
        cost = cost_there;
      }
      if (!better) {
        // Between a report that is ignored and one that is explained nothing looks better: an error
        // costs the same however large it is. What lies behind is tried all the same.
        part = fit.unknowns;
        predicted = PredictAt(WithPart(range, part), rows);
        cost = TrueCost(part, predicted, rows, priors);
      }
      if (cost >= best_cost) continue;
      best_part = part;
      best_predicted = predicted;
      best_cost = cost;
    }
    part = std::move(best_part);
    predicted = std::move(best_predicted);
    const Fit fit = FitAt(part, Linearised(range, part, predicted, rows), priors, options_);
    if (stopped()) return {};
    factors_ = WithPart(range, part);
    for (size_t t = 0; t < types_.size(); ++t) {
      for (size_t row = 0; row < range.count; ++row) {
        for (size_t column = 0; column < range.count; ++column) {
          types_[t].posterior.at(range.first + row, range.first + column) =
              fit.covariance.at(t * range.count + row, t * range.count + column);
        }
      }
    }
    std::vector<double> residuals;
    for (size_t r = 0; r < rows.size(); ++r) {
      residuals.push_back(rows[r].log_measured - predicted[r]);
      if (verdicts == nullptr) continue;
      Calibration::Verdict& verdict = (*verdicts)[rows[r].observation];
      verdict.weight = fit.weights[r];
      verdict.predicted_seconds = std::exp(uncorrected[r]);
      verdict.corrected_seconds = std::exp(predicted[r]);
    }
    return {residuals, fit.weights};
  }

  std::vector<LinearObservation> Linearised(const TermRange& range, const std::vector<double>& part,
                                            const std::vector<double>& predicted,
                                            const std::vector<Row>& rows) const {
    std::vector<LinearObservation> linear(rows.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      linear[r].value = rows[r].log_measured;
      linear[r].offset = predicted[r];
      linear[r].deviation = rows[r].deviation;
      linear[r].gradient.resize(part.size());
    }
    for (size_t i = 0; i < part.size(); ++i) {
      std::array<std::vector<double>, 2> sides;
      for (const int side : {0, 1}) {
        std::vector<double> nudged = part;
        nudged[i] += side == 0 ? -kNudge : kNudge;
        sides[static_cast<size_t>(side)] = PredictAt(WithPart(range, nudged), rows);
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        const double slope = (sides[1][r] - sides[0][r]) / (2 * kNudge);
        linear[r].gradient[i] = slope;
        linear[r].offset -= slope * part[i];
      }
    }
    return linear;
  }

  const std::vector<Observation>& observations_;
  const Component& component_;
  const Interrupter& interrupter_;
  const CalibrationErrors& errors_;
  const FitOptions& options_;
  std::vector<double> factors_;  // Logarithms, kTerms for each type.
  std::vector<TypeCalibration> types_;
};

}  // namespace

Matrix PriorOf(const AcceleratorProfile& profile, const CalibrationErrors& errors) {
  const cost::BandErrors& terms = errors.terms;
  const auto by_table = [&](profile::TableKind kind, profile::MatrixPrecision precision) {
    return profile.FindTable(kind, precision) == nullptr ? terms.analytic : terms.interpolated;
  };
  std::array<double, kTerms> deviations = {};
  const auto set = [&](Term term, double deviation) {
    deviations[static_cast<size_t>(term)] = deviation;
  };
  set(Term::kProducts, by_table(profile::TableKind::kGemm, profile::MatrixPrecision::kBf16));
  set(Term::kLowPrecision, by_table(profile::TableKind::kGemm, profile::MatrixPrecision::kFp8));
  set(Term::kAttention, by_table(profile::TableKind::kAttention, profile::MatrixPrecision::kBf16));
  set(Term::kMemory, terms.analytic);
  set(Term::kScaleUp, terms.communication);
  set(Term::kNetwork, terms.communication);
  set(Term::kHost, terms.launch);
  set(Term::kRouting, terms.routing);
  set(Term::kActivations, errors.activations);
  set(Term::kSlack, errors.slack);
  // What all times have in common; routing comes on top of times that have it already.
  const auto common = [](size_t term) {
    return term < static_cast<size_t>(Term::kActivations) &&
           term != static_cast<size_t>(Term::kRouting);
  };
  Matrix prior(kTerms);
  for (size_t row = 0; row < kTerms; ++row) {
    for (size_t column = 0; column < kTerms; ++column) {
      if (row == column) prior.at(row, column) += Square(deviations[row]);
      if (common(row) && common(column)) prior.at(row, column) += Square(terms.common);
    }
  }
  return prior;
}

std::optional<Calibration> Calibrate(const std::vector<Observation>& observations,
                                     const Interrupter& interrupter,
                                     const CalibrationErrors& errors, const FitOptions& options) {
  Calibration result;
  result.verdicts.resize(observations.size());
  for (const Component& component : ComponentsOf(observations)) {
    if (!Calibrator(observations, component, interrupter, errors, options).Run(result)) {
      return std::nullopt;
    }
  }
  for (const Observation& observation : observations) {
    for (const ProfilePtr& type : TypesOf(observation)) ++result.types.at(type).reports;
  }
  return result;
}

Calibration Calibrate(const std::vector<Observation>& observations, const CalibrationErrors& errors,
                      const FitOptions& options) {
  return Calibrate(observations, Interrupter(), errors, options).value();
}

}  // namespace hapmoe::feedback
