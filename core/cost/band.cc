#include "core/cost/band.h"

#include <cmath>

namespace hapmoe::cost {
namespace {

// Standard errors on either side that hold four fifths of a normal distribution.
constexpr double kFourFifths = 1.2816;

double Square(double x) { return x * x; }

}  // namespace

Band BandOf(const Evidence& evidence, double iteration_seconds, const BandErrors& errors) {
  const double total = evidence.total();
  double variance = Square(errors.common);
  if (total > 0) {
    variance += Square((evidence.measured_seconds * errors.measured +
                        evidence.interpolated_seconds * errors.interpolated +
                        evidence.analytic_seconds * errors.analytic) /
                       total);
    variance += Square(evidence.communication_seconds * errors.communication / total);
    variance += Square(evidence.launch_seconds * errors.launch / total);
    variance += Square(evidence.routed_seconds * errors.routing / total);
  }
  return BandAround(iteration_seconds, std::sqrt(variance));
}

Band BandAround(double iteration_seconds, double deviation) {
  // In logarithms: a time may be twice as long as predicted, but not less than nothing.
  const double factor = std::exp(kFourFifths * deviation);
  return {iteration_seconds / factor, iteration_seconds * factor};
}

double DeviationOf(const Band& band) {
  return std::log(band.high_seconds / band.low_seconds) / (2 * kFourFifths);
}

}  // namespace hapmoe::cost
