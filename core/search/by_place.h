// What depends on where in its pool a stage stands.
#ifndef HAPMOE_CORE_SEARCH_BY_PLACE_H_
#define HAPMOE_CORE_SEARCH_BY_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace hapmoe::search {

// One thing for each place that differs. Places are told by the units of the pool behind the stage,
// and repeat where nodes begin at the same units again; mostly all of them are alike.
template <typename T>
class ByPlace {
 public:
  // `numbers[i]`: the one of `distinct` for i units behind, modulo their number.
  ByPlace(std::vector<T> distinct, std::vector<uint16_t> numbers)
      : distinct_(std::move(distinct)), numbers_(std::move(numbers)) {}

  const T& At(int64_t units_behind) const {
    return distinct_[numbers_[static_cast<size_t>(units_behind) % numbers_.size()]];
  }
  const std::vector<T>& distinct() const { return distinct_; }
  int64_t period() const { return static_cast<int64_t>(numbers_.size()); }
  // Memory of the places, without the things themselves.
  size_t bytes() const {
    return distinct_.capacity() * sizeof(T) + numbers_.capacity() * sizeof(uint16_t);
  }

  // The same for what `make` makes of each distinct thing.
  template <typename Make>
  auto Map(const Make& make) const {
    std::vector<std::invoke_result_t<Make, const T&>> made;
    made.reserve(distinct_.size());
    for (const T& one : distinct_) made.push_back(make(one));
    return ByPlace<std::invoke_result_t<Make, const T&>>(std::move(made), numbers_);
  }

 private:
  std::vector<T> distinct_;
  std::vector<uint16_t> numbers_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BY_PLACE_H_
