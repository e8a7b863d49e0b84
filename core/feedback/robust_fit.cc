#include "core/feedback/robust_fit.h"

#include <algorithm>
#include <cmath>

namespace hapmoe::feedback {
namespace {

constexpr int kMostSteps = 60;
constexpr double kSettled = 1e-12;
// Observations that a fit starts from, each alone.
constexpr size_t kMostStarts = 16;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> Times(const Matrix& matrix, const std::vector<double>& v) {
  std::vector<double> product(v.size(), 0);
  for (size_t row = 0; row < v.size(); ++row) {
    for (size_t column = 0; column < v.size(); ++column) {
      product[row] += matrix.at(row, column) * v[column];
    }
  }
  return product;
}

// The lower factor of a positive definite matrix.
Matrix Cholesky(const Matrix& matrix) {
  const size_t n = matrix.size();
  Matrix factor(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = matrix.at(i, j);
      for (size_t k = 0; k < j; ++k) sum -= factor.at(i, k) * factor.at(j, k);
      factor.at(i, j) = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / factor.at(j, j);
    }
  }
  return factor;
}

std::vector<double> Solve(const Matrix& factor, std::vector<double> v) {
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) v[i] -= factor.at(i, k) * v[k];
    v[i] /= factor.at(i, i);
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) v[i] -= factor.at(k, i) * v[k];
    v[i] /= factor.at(i, i);
  }
  return v;
}

double PriorForm(const PriorBlock& block, const std::vector<double>& unknowns) {
  const auto first = unknowns.begin() + static_cast<std::ptrdiff_t>(block.first);
  return block.precision.Form({first, first + static_cast<std::ptrdiff_t>(block.precision.size())});
}

// How the density of an error is made up: of `error / deviation` squared.
struct ErrorDensity {
  double student = 0;
  double ignored = 0;
};

ErrorDensity DensityOf(double square, const FitOptions& options) {
  const double freedom = options.error_freedom;
  return {std::pow(1 + square / freedom, -(freedom + 1) / 2), std::exp(-options.ignorance)};
}

// 1 at no error: the pull of an error over that of a normal one.
double WeightOf(double square, const FitOptions& options) {
  const ErrorDensity density = DensityOf(square, options);
  const double freedom = options.error_freedom;
  return density.student / (density.student + density.ignored) / (1 + square / freedom);
}

class Problem {
 public:
  Problem(const std::vector<LinearObservation>& observations, const std::vector<PriorBlock>& priors,
          size_t unknowns, const FitOptions& options)
      : observations_(observations), priors_(priors), unknowns_(unknowns), options_(options) {
    for (const LinearObservation& one : observations) deviations_.push_back(one.deviation);
  }

  // Weighted least squares, the weights those at the point before, until they settle.
  Fit From(std::vector<double> unknowns) const {
    for (int step = 0; step < kMostSteps; ++step) {
      Matrix precision = PriorPrecision(unknowns);
      std::vector<double> pull(unknowns_, 0);
      AddAt(unknowns, precision, pull);
      std::vector<double> next = SolveWithin(precision, pull);
      double moved = 0;
      for (size_t i = 0; i < unknowns_; ++i) {
        moved = std::max(moved, std::abs(next[i] - unknowns[i]));
      }
      unknowns = std::move(next);
      if (moved < kSettled) break;
    }
    return At(std::move(unknowns));
  }

  Fit At(std::vector<double> unknowns) const {
    Fit fit;
    const std::vector<double> residuals = ResidualsAt(unknowns);
    for (size_t i = 0; i < residuals.size(); ++i) {
      const double z = residuals[i] / deviations_[i];
      fit.weights.push_back(WeightOf(z * z, options_));
    }
    fit.cost = CostOf(unknowns, residuals, deviations_, priors_, options_);
    fit.covariance = Inverse(PrecisionAt(unknowns));
    fit.unknowns = std::move(unknowns);
    return fit;
  }

  // The least squares between the bounds: unknowns that would leave them stay on them.
  std::vector<double> SolveWithin(const Matrix& precision, const std::vector<double>& pull) const {
    std::vector<double> solution(unknowns_, 0);
    std::vector<bool> held(unknowns_, false);
    for (bool again = true; again;) {
      Matrix free = precision;
      std::vector<double> left = pull;
      for (size_t i = 0; i < unknowns_; ++i) {
        if (!held[i]) continue;
        for (size_t j = 0; j < unknowns_; ++j) {
          if (!held[j]) left[j] -= precision.at(j, i) * solution[i];
          free.at(i, j) = free.at(j, i) = i == j ? 1 : 0;
        }
        left[i] = solution[i];
      }
      solution = Solve(Cholesky(free), std::move(left));
      again = false;
      for (size_t i = 0; i < unknowns_; ++i) {
        const double within = std::clamp(solution[i], options_.least, options_.most);
        if (held[i] || within == solution[i]) continue;
        solution[i] = within;
        held[i] = again = true;
      }
    }
    return solution;
  }

  // What one observation alone, or all of them, would say with normal errors.
  std::vector<double> Normal(const LinearObservation* only) const {
    Matrix precision = PriorPrecision(std::vector<double>(unknowns_, 0));
    std::vector<double> pull(unknowns_, 0);
    for (const LinearObservation& one : observations_) {
      if (only != nullptr && only != &one) continue;
      const double weight = 1 / (one.deviation * one.deviation);
      Add(one, weight, precision, pull);
    }
    return SolveWithin(precision, pull);
  }

 private:
  static void Add(const LinearObservation& one, double weight, Matrix& precision,
                  std::vector<double>& pull) {
    for (size_t row = 0; row < pull.size(); ++row) {
      if (one.gradient[row] == 0) continue;
      pull[row] += weight * one.gradient[row] * (one.value - one.offset);
      for (size_t column = 0; column < pull.size(); ++column) {
        precision.at(row, column) += weight * one.gradient[row] * one.gradient[column];
      }
    }
  }

  std::vector<double> ResidualsAt(const std::vector<double>& unknowns) const {
    std::vector<double> residuals;
    for (const LinearObservation& one : observations_) {
      residuals.push_back(one.value - one.offset - Dot(one.gradient, unknowns));
    }
    return residuals;
  }

  Matrix PriorPrecision(const std::vector<double>& unknowns) const {
    Matrix precision(unknowns_);
    for (const PriorBlock& block : priors_) {
      const double weight = 1 / (1 + PriorForm(block, unknowns) / options_.prior_freedom);
      for (size_t row = 0; row < block.precision.size(); ++row) {
        for (size_t column = 0; column < block.precision.size(); ++column) {
          precision.at(block.first + row, block.first + column) +=
              weight * block.precision.at(row, column);
        }
      }
    }
    return precision;
  }

  Matrix PrecisionAt(const std::vector<double>& unknowns) const {
    Matrix precision = PriorPrecision(unknowns);
    std::vector<double> unused(unknowns_, 0);
    AddAt(unknowns, precision, unused);
    return precision;
  }

  void AddAt(const std::vector<double>& unknowns, Matrix& precision,
             std::vector<double>& pull) const {
    const std::vector<double> residuals = ResidualsAt(unknowns);
    const double freedom = options_.error_freedom;
    for (size_t i = 0; i < observations_.size(); ++i) {
      const double z = residuals[i] / deviations_[i];
      const double weight =
          WeightOf(z * z, options_) * (freedom + 1) / freedom / (deviations_[i] * deviations_[i]);
      Add(observations_[i], weight, precision, pull);
    }
  }

  const std::vector<LinearObservation>& observations_;
  const std::vector<PriorBlock>& priors_;
  const size_t unknowns_;
  const FitOptions& options_;
  std::vector<double> deviations_;
};

}  // namespace

double Matrix::Form(const std::vector<double>& v) const { return Dot(v, Times(*this, v)); }

Matrix Inverse(const Matrix& matrix) {
  const size_t n = matrix.size();
  const Matrix factor = Cholesky(matrix);
  Matrix inverse(n);
  for (size_t column = 0; column < n; ++column) {
    std::vector<double> unit(n, 0);
    unit[column] = 1;
    const std::vector<double> solved = Solve(factor, std::move(unit));
    for (size_t row = 0; row < n; ++row) inverse.at(row, column) = solved[row];
  }
  return inverse;
}

double CostOf(const std::vector<double>& unknowns, const std::vector<double>& residuals,
              const std::vector<double>& deviations, const std::vector<PriorBlock>& priors,
              const FitOptions& options) {
  double cost = 0;
  for (const PriorBlock& block : priors) {
    cost +=
        options.prior_freedom / 2 * std::log1p(PriorForm(block, unknowns) / options.prior_freedom);
  }
  for (size_t i = 0; i < residuals.size(); ++i) {
    const double z = residuals[i] / deviations[i];
    const ErrorDensity density = DensityOf(z * z, options);
    cost -= std::log(density.student + density.ignored);
  }
  return cost;
}

Fit FitRobustly(const std::vector<LinearObservation>& observations,
                const std::vector<PriorBlock>& priors, size_t unknowns, const FitOptions& options,
                const Interrupter* interrupter) {
  const Problem problem(observations, priors, unknowns, options);
  Fit best = problem.From(std::vector<double>(unknowns, 0));
  const auto consider = [&](const std::vector<double>& start) {
    if (interrupter != nullptr && interrupter->tripped()) return;
    Fit fit = problem.From(start);
    if (fit.cost < best.cost - 1e-9) best = std::move(fit);  // Ties stay with the prior's centre.
  };
  if (observations.empty()) return best;
  consider(problem.Normal(nullptr));
  const size_t stride = (observations.size() + kMostStarts - 1) / kMostStarts;
  for (size_t i = 0; i < observations.size(); i += stride) {
    consider(problem.Normal(&observations[i]));
  }
  return best;
}

Fit FitAt(const std::vector<double>& point, const std::vector<LinearObservation>& observations,
          const std::vector<PriorBlock>& priors, const FitOptions& options) {
  return Problem(observations, priors, point.size(), options).At(point);
}

}  // namespace hapmoe::feedback
