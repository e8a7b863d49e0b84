#include "core/profile/collective_curves.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hapmoe::profile {
namespace {

constexpr size_t kMaxCurves = 256;
constexpr size_t kMaxPoints = 4096;
constexpr int64_t kMaxRanks = 1 << 20;
constexpr double kMaxBytes = 1e15;
constexpr double kMaxSeconds = 3600;
constexpr double kMaxErrorBound = 0.5;

// Least bytes that cross one rank's links, whatever the algorithm: with reduction in the switch an
// all-reduce sends and receives the tensor once.
double LeastBytes(CollectivePrimitive primitive, double ranks, double bytes) {
  switch (primitive) {
    case CollectivePrimitive::kAllGather:
    case CollectivePrimitive::kReduceScatter:
    case CollectivePrimitive::kAllToAll:
      return bytes * (ranks - 1) / ranks;
    case CollectivePrimitive::kAllReduce:
    case CollectivePrimitive::kSendReceive:
      return bytes;
  }
  return bytes;
}

bool InRange(double value, double limit) {
  return std::isfinite(value) && value > 0 && value <= limit;
}

// The faults of one list of points.
std::string PointsFault(const std::vector<double>& bytes, const std::vector<double>& seconds,
                        bool ascending) {
  if (bytes.size() != seconds.size()) {
    return absl::StrCat("There are ", bytes.size(), " bytes and ", seconds.size(), " seconds.");
  }
  if (bytes.size() > kMaxPoints) return absl::StrCat("At most ", kMaxPoints, " points.");
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!InRange(bytes[i], kMaxBytes) || !InRange(seconds[i], kMaxSeconds)) {
      return absl::StrCat("Point ", i, " is out of range: ", bytes[i], " bytes, ", seconds[i],
                          " seconds.");
    }
    if (ascending && i > 0 && (bytes[i] <= bytes[i - 1] || seconds[i] < seconds[i - 1])) {
      return absl::StrCat("Point ", i, " is not above the one before it.");
    }
  }
  return "";
}

}  // namespace

double CollectiveCurve::Seconds(double at_bytes) const {
  if (at_bytes <= bytes.front()) return seconds.front();
  if (at_bytes >= bytes.back()) return seconds.back() * at_bytes / bytes.back();
  const size_t i =
      static_cast<size_t>(std::upper_bound(bytes.begin(), bytes.end(), at_bytes) - bytes.begin());
  const double share = (at_bytes - bytes[i - 1]) / (bytes[i] - bytes[i - 1]);
  return seconds[i - 1] + share * (seconds[i] - seconds[i - 1]);
}

double CollectiveCurve::HeldError() const {
  double sum = 0;
  for (size_t i = 0; i < held_bytes.size(); ++i) {
    sum += std::abs(Seconds(held_bytes[i]) - held_seconds[i]) / held_seconds[i];
  }
  return held_bytes.empty() ? 0 : sum / static_cast<double>(held_bytes.size());
}

CollectiveCurves::CollectiveCurves(std::vector<CollectiveCurve> curves)
    : curves_(std::move(curves)) {}

std::optional<CollectiveCurves::Reading> CollectiveCurves::Read(CollectivePrimitive primitive,
                                                                int64_t ranks, double bytes) const {
  if (ranks < 2) return std::nullopt;
  const CollectiveCurve* nearest = nullptr;
  for (const CollectiveCurve& curve : curves_) {
    if (curve.primitive != primitive) continue;
    if (nearest == nullptr ||
        (curve.ranks >= ranks ? nearest->ranks < ranks || curve.ranks < nearest->ranks
                              : nearest->ranks < ranks && curve.ranks > nearest->ranks)) {
      nearest = &curve;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return Reading{nearest->Seconds(bytes), nearest->ranks};
}

Violations CollectiveCurves::Check(double bytes_per_second) const {
  Violations violations;
  const auto add = [&](absl::string_view rule, size_t i, absl::string_view field,
                       std::string message) {
    violations.push_back(
        {std::string(rule), absl::StrCat("collectives[", i, "]", field), std::move(message)});
  };
  if (curves_.size() > kMaxCurves) {
    violations.push_back({"collectives_in_range", "collectives",
                          absl::StrCat("At most ", kMaxCurves, ", not ", curves_.size(), ".")});
    return violations;
  }
  for (size_t i = 0; i < curves_.size(); ++i) {
    const CollectiveCurve& curve = curves_[i];
    if (curve.ranks < 2 || curve.ranks > kMaxRanks) {
      add("collective_ranks_in_range", i, ".ranks",
          absl::StrCat("Must be at least 2 and at most ", kMaxRanks, ", not ", curve.ranks, "."));
    }
    for (size_t j = 0; j < i; ++j) {
      if (curves_[j].primitive == curve.primitive && curves_[j].ranks == curve.ranks) {
        add("collective_listed_once", i, "",
            absl::StrCat("collectives[", j, "] has the same primitive and ranks."));
      }
    }
    if (!(curve.error_bound > 0 && curve.error_bound <= kMaxErrorBound)) {
      add("collective_error_bound_in_range", i, ".error_bound",
          absl::StrCat("Must be above 0 and at most ", kMaxErrorBound, ", not ", curve.error_bound,
                       "."));
    }
    const std::string fault = curve.bytes.empty()
                                  ? "The curve has no points."
                                  : PointsFault(curve.bytes, curve.seconds, /*ascending=*/true);
    if (!fault.empty()) add("collective_points_valid", i, ".bytes", fault);
    const std::string held = PointsFault(curve.held_bytes, curve.held_seconds, false);
    if (!held.empty()) add("collective_points_valid", i, ".held_bytes", held);
    if (!fault.empty() || !held.empty()) continue;
    for (size_t j = 0; j < curve.bytes.size(); ++j) {
      const double least =
          LeastBytes(curve.primitive, static_cast<double>(curve.ranks), curve.bytes[j]);
      if (least > bytes_per_second * curve.seconds[j]) {
        add("collective_within_peak", i, absl::StrCat(".seconds[", j, "]"),
            absl::StrCat("At least ", least, " bytes in ", curve.seconds[j],
                         " seconds are more than the links carry."));
        break;
      }
    }
    if (curve.HeldError() > curve.error_bound) {
      add("collective_error_within_bound", i, ".error_bound",
          absl::StrCat("The curve misses its held points by ", curve.HeldError(),
                       " on average, more than the stated ", curve.error_bound, "."));
    }
  }
  return violations;
}

}  // namespace hapmoe::profile
