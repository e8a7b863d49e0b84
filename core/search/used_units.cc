#include "core/search/used_units.h"

#include <numeric>

namespace hapmoe::search {
namespace {

constexpr size_t kStatesBetweenLooks = 1024;
// So many states are charged for together.
constexpr size_t kChargedStates = 4096;

}  // namespace

UsedUnits::UsedUnits(const std::vector<Port>& ports, const Limits& limits,
                     const Interrupter& interrupter)
    : pools_(limits.pool_units.size()), ports_(ports.size()), charge_(limits.memory) {
  // States are found by a number in mixed radix: stages, then the units of each pool.
  std::vector<int64_t> stride(pools_);
  int64_t radix = 1;
  for (size_t pool = 0; pool < pools_; ++pool) {
    stride[pool] = radix;
    radix *= limits.pool_units[pool] + 1;
  }
  absl::flat_hash_map<int64_t, int32_t> numbers;
  std::vector<int64_t> units(pools_, 0);
  const auto number_of = [&](int64_t stages) {
    int64_t key = stages * radix;
    for (size_t pool = 0; pool < pools_; ++pool) key += units[pool] * stride[pool];
    const auto [entry, added] = numbers.try_emplace(key, static_cast<int32_t>(stages_.size()));
    if (added) {
      units_.insert(units_.end(), units.begin(), units.end());
      stages_.push_back(stages);
      without_.resize(without_.size() + ports_, kNone);
    }
    return entry->second;
  };
  // Of a state in all that grows with their number; vectors and maps have up to twice the room.
  const size_t state_bytes = 2 * (pools_ * sizeof(int64_t) + sizeof(int64_t) +
                                  ports_ * sizeof(int32_t) + sizeof(std::pair<int64_t, int32_t>));
  size_t charged_states = 0;
  number_of(0);
  for (size_t from = 0; from < stages_.size() && stages_[from] < limits.max_stages; ++from) {
    const bool look = from % kStatesBetweenLooks == 0;
    if (static_cast<int64_t>(stages_.size()) > limits.max_states ||
        (look && interrupter.tripped())) {
      complete_ = false;
      return;
    }
    // Each state leads to at most one more for each port.
    while (stages_.size() + ports_ > charged_states) {
      if (!charge_.Add(static_cast<int64_t>(kChargedStates * state_bytes))) {
        complete_ = false;
        return;
      }
      charged_states += kChargedStates;
    }
    // Only one pool of a contiguous pipeline is begun and not used up.
    int64_t begun = -1;
    for (size_t pool = 0; pool < pools_; ++pool) {
      units[pool] = Of(from, pool);
      if (units[pool] > 0 && units[pool] < limits.pool_units[pool]) {
        begun = static_cast<int64_t>(pool);
      }
    }
    for (size_t port = 0; port < ports_; ++port) {
      const size_t pool = static_cast<size_t>(ports[port].pool);
      if (units[pool] + ports[port].units > limits.pool_units[pool]) continue;
      if (limits.contiguous && begun >= 0 && begun != ports[port].pool) continue;
      units[pool] += ports[port].units;
      const size_t to = static_cast<size_t>(number_of(stages_[from] + 1));
      units[pool] -= ports[port].units;
      without_[to * ports_ + port] = static_cast<int32_t>(from);
    }
  }
}

int64_t UsedUnits::units(size_t state) const {
  const auto begin = units_.begin() + static_cast<std::ptrdiff_t>(state * pools_);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(pools_), int64_t{0});
}

}  // namespace hapmoe::search
