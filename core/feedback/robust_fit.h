// A few unknowns from noisy observations that depend on them almost linearly: what is likeliest
// under a prior, whatever a few of the observations say.
#ifndef HAPMOE_CORE_FEEDBACK_ROBUST_FIT_H_
#define HAPMOE_CORE_FEEDBACK_ROBUST_FIT_H_

#include <cstddef>
#include <vector>

#include "core/base/interrupter.h"

namespace hapmoe::feedback {

// Square, symmetric, row by row.
class Matrix {
 public:
  explicit Matrix(size_t size = 0) : size_(size), values_(size * size, 0) {}

  size_t size() const { return size_; }
  double& at(size_t row, size_t column) { return values_[row * size_ + column]; }
  double at(size_t row, size_t column) const { return values_[row * size_ + column]; }

  // v' M v.
  double Form(const std::vector<double>& v) const;

 private:
  size_t size_;
  std::vector<double> values_;
};

// The inverse of a positive definite matrix, by Cholesky's factors.
Matrix Inverse(const Matrix& matrix);

// One observed value: value = offset + gradient . unknowns + error, near the point of interest.
struct LinearObservation {
  double value = 0;
  double offset = 0;
  std::vector<double> gradient;
  double deviation = 1;  // Of the error.
};

// Unknowns that share a prior: a heavy-tailed one, since where some are far from 0 others may be.
struct PriorBlock {
  size_t first = 0;
  Matrix precision;  // Inverse of the covariance.
};

struct FitOptions {
  // Errors follow Student's distribution with these degrees of freedom,
  double error_freedom = 3;
  // and e^-ignorance of the likeliest error's density is that of any error whatsoever: what is
  // further off has no pull at all.
  double ignorance = 8;
  double prior_freedom = 6;
  // Of every unknown. Logarithms of factors: accelerators may well take 4 times what their profile
  // says, with software that does not use them, but not less than half of it.
  double least = -0.6931471805599453;
  double most = 1.3862943611198906;
};

struct Fit {
  std::vector<double> unknowns;
  std::vector<double> weights;  // Of observations: 1 where the prediction was right, 0 ignored.
  Matrix covariance;            // Of the unknowns.
  double cost = 0;
};

// -log density of the observations' errors and of the unknowns, less a constant.
double CostOf(const std::vector<double>& unknowns, const std::vector<double>& residuals,
              const std::vector<double>& deviations, const std::vector<PriorBlock>& priors,
              const FitOptions& options);

// The best of the minima that are reached from the prior's centre, from all observations together
// and from some of them alone. Exactly 0 where every value is its offset. Depends on the order of
// observations in the last digits only. Once `interrupter` trips, which may be null, the best so
// far.
Fit FitRobustly(const std::vector<LinearObservation>& observations,
                const std::vector<PriorBlock>& priors, size_t unknowns,
                const FitOptions& options = {}, const Interrupter* interrupter = nullptr);

// What holds at a point, whether it is a minimum or not: weights, covariance and cost.
Fit FitAt(const std::vector<double>& point, const std::vector<LinearObservation>& observations,
          const std::vector<PriorBlock>& priors, const FitOptions& options = {});

}  // namespace hapmoe::feedback

#endif  // HAPMOE_CORE_FEEDBACK_ROBUST_FIT_H_
