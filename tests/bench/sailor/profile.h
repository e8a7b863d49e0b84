// A layer-table profile in Sailor's terms, and its formulas for transfers, all-reduces and memory.
#ifndef HAPMOE_TESTS_BENCH_SAILOR_PROFILE_H_
#define HAPMOE_TESTS_BENCH_SAILOR_PROFILE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hapmoe::bench::sailor {

// Tensor-parallel degrees: a group never leaves its node of four.
inline constexpr std::array<int, 3> kTensorDegrees = {1, 2, 4};

// Bandwidth in GB/s over x = log2(bytes / 1e6): a x^2 + b x + c.
struct Bandwidth {
  double a = 0;
  double b = 0;
  double c = 0;

  // Seconds that a message takes. 0 for nothing.
  double Seconds(double bytes) const;
};

// Seconds of the layers of one micro-batch on one type at one degree.
struct LayerTimes {
  std::vector<double> pass;    // Forward and backward, by layer.
  std::vector<double> update;  // By layer.
};

// What every rank holds at one degree, in numbers of four bytes.
struct LayerSizes {
  std::vector<double> parameters;
  std::vector<double> activations;  // Kept of one sample until the backward pass.
};

struct AcceleratorType {
  std::string name;
  double memory_bytes = 0;
  std::map<std::pair<int, int>, LayerTimes> times;  // By micro-batch and degree.
};

struct Profile {
  int layers = 0;
  std::vector<AcceleratorType> types;
  std::map<int, LayerSizes> sizes;  // By degree.
  std::vector<double> outputs;      // Numbers that a layer hands on, of one sample.
  // Between a sender and a receiver, each a type and a degree.
  std::map<std::array<int, 4>, Bandwidth> links;

  int TypeOf(absl::string_view name) const;  // -1 where it is unknown.
  const Bandwidth& link(int from, int from_tp, int to, int to_tp) const {
    return links.at({from, from_tp, to, to_tp});
  }
};

// INVALID_ARGUMENT: not such a profile. Layers, types and degrees that a table lists are checked to
// be complete.
absl::StatusOr<Profile> ParseProfile(absl::string_view json);

// Ring over one accelerator of each of `replicas` nodes, in buckets of 500 MB one after another.
double AllReduceSeconds(const Bandwidth& link, double bytes, int64_t replicas);

// Of one rank that holds so many parameters, and activations of so many numbers for one sample.
double MemoryBytes(double parameters, double activations, int64_t micro_batch, int64_t in_flight,
                   int tp);

}  // namespace hapmoe::bench::sailor

#endif  // HAPMOE_TESTS_BENCH_SAILOR_PROFILE_H_
