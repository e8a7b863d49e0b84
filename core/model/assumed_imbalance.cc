#include "core/model/assumed_imbalance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace hapmoe::model {
namespace {

// Layers times micro-batches whose activations a rank holds together at its fullest, at least: all
// but the thinnest stages hold more. Their loads differ, and even out.
constexpr double kSavedTogether = 4;

template <size_t n>
double Polynomial(const std::array<double, n>& coefficients, double x) {
  double value = 0;
  for (const double coefficient : coefficients) value = value * x + coefficient;
  return value;
}

}  // namespace

double ExpertSpread(Balancing balancing) {
  switch (balancing) {
    case Balancing::kForced:
      return 0;
    case Balancing::kExpertBias:
    case Balancing::kSinkhorn:
      return 0.04 / 2.34 / 0.96;  // The square root of 58/63: 6 of 64 experts are drawn.
    case Balancing::kAuxiliaryLoss:
    case Balancing::kNone:
      break;
  }
  return 0.5 * 0.62 / 2.34 / 0.96;
}

double NormalQuantile(double p) {
  constexpr std::array<double, 6> kA = {-3.969683028665376e+01, 2.209460984245205e+02,
                                        -2.759285104469687e+02, 1.383577518672690e+02,
                                        -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array<double, 6> kB = {-5.447609879822406e+01, 1.615858368580409e+02,
                                        -1.556989798598866e+02, 6.680131188771972e+01,
                                        -1.328068155288572e+01, 1};
  constexpr std::array<double, 6> kC = {-7.784894002430293e-03, -3.223964580411365e-01,
                                        -2.400758277161838e+00, -2.549732539343734e+00,
                                        4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array<double, 5> kD = {7.784695709041462e-03, 3.224671290700398e-01,
                                        2.445134137142996e+00, 3.754408661907416e+00, 1};
  constexpr double kTail = 0.02425;
  if (p > 0.5) return -NormalQuantile(1 - p);
  if (p < kTail) {
    const double q = std::sqrt(-2 * std::log(p));
    return Polynomial(kC, q) / Polynomial(kD, q);
  }
  const double q = p - 0.5;
  return q * Polynomial(kA, q * q) / Polynomial(kB, q * q);
}

Imbalance AssumedImbalance(Balancing balancing, int64_t experts, int64_t topk, int64_t ep,
                           double rank_tokens, double quantile, double most) {
  Imbalance imbalance;
  if (ep <= 1 || balancing == Balancing::kForced) return imbalance;
  const double ranks = static_cast<double>(ep);
  const double all = static_cast<double>(experts);
  const double local = all / ranks;
  const double spread = ExpertSpread(balancing);
  // A token's experts are drawn without being put back.
  const double left_out = (all - static_cast<double>(std::min(topk, experts))) / (all - 1);
  // Loads are normal variables less their mean, which takes nothing from their expected maximum.
  const double deviation = std::sqrt((spread * spread / local + 1 / rank_tokens) * left_out);
  // Blom's approximation of the expected maximum of normal variables.
  const double expected = NormalQuantile((ranks - 0.375) / (ranks + 0.25));
  const double at_quantile =
      quantile > 0 ? NormalQuantile(std::pow(quantile, 1 / ranks)) : expected;
  const double limit = std::max(1.0, std::min(most, ranks));
  imbalance.time = std::min(limit, 1 + expected * deviation);
  imbalance.memory = std::min(limit, 1 + std::max(expected, at_quantile) * deviation);
  imbalance.saved =
      std::min(limit, 1 + std::max(expected, at_quantile / std::sqrt(kSavedTogether)) * deviation);
  return imbalance;
}

}  // namespace hapmoe::model
