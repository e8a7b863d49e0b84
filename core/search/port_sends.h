// What stages send to each other, by their ports.
#ifndef HAPMOE_CORE_SEARCH_PORT_SENDS_H_
#define HAPMOE_CORE_SEARCH_PORT_SENDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cost/communication_time.h"
#include "core/search/used_units.h"

namespace hapmoe::search {

// Seconds of one micro-batch, by how far it has to go: [cost::Reach].
using SendSeconds = std::array<double, cost::kReaches>;

// What the front stage of a run sends back depends on the stage before it, which a dynamic program
// from the end does not know yet. Ports that may come before are in classes of equal sends. How far
// a border inside a pool reaches depends on the units of the pool behind it, as
// cost::BorderReaches has it.
class PortSends {
 public:
  // `seconds`: from a port to another, [from][to]. `fabrics`: of each port's pool; must outlive
  // this object. `stages`: of every pipeline; 0: any number.
  PortSends(const std::vector<Port>& ports, std::vector<std::vector<SendSeconds>> seconds,
            std::vector<const cost::Fabric*> fabrics, int64_t unit_ranks, int64_t stages);

  // `behind`: units of the pool of `to` that stages take from `to` on.
  double Between(size_t from, size_t to, int64_t behind) const {
    return At(seconds_[from][to], units_[from], to, behind);
  }

  // Classes of all ports together, the number of the first class of a port, and their number.
  size_t classes() const { return classes_; }
  size_t FirstClass(size_t port) const { return first_class_[port]; }
  size_t ClassesOf(size_t port) const { return back_[port].size(); }
  // From `port` to those of a class before it. `behind`: as above, from `port` on.
  double Back(size_t port, size_t number, int64_t behind) const {
    const Before& before = back_[port][number];
    return At(before.seconds, before.units, port, behind);
  }
  // The class, among those of `port`, that a port before it is in.
  size_t ClassBefore(size_t port, size_t before) const { return class_before_[port][before]; }

  // From a port that is not known, at the other end of the pipeline.
  double LeastFromAny(size_t port) const { return least_[port]; }
  double MostFromAny(size_t port) const { return most_[port]; }

 private:
  struct Before {
    SendSeconds seconds;
    int64_t units = 0;  // Where the reach may depend on them.

    friend bool operator==(const Before&, const Before&) = default;
  };

  // From a stage of `units` to the one of `to` behind it.
  double At(const SendSeconds& seconds, int64_t units, size_t to, int64_t behind) const {
    return seconds[static_cast<size_t>(cost::ReachOf(
        *fabrics_[to], (behind - units_[to]) * unit_ranks_, (behind + units) * unit_ranks_))];
  }

  const std::vector<std::vector<SendSeconds>> seconds_;
  const std::vector<const cost::Fabric*> fabrics_;
  const int64_t unit_ranks_;
  std::vector<int64_t> units_;  // [port]
  size_t classes_ = 0;
  std::vector<size_t> first_class_;
  std::vector<std::vector<Before>> back_;          // [port][class]
  std::vector<std::vector<size_t>> class_before_;  // [port][port before it]
  std::vector<double> least_;
  std::vector<double> most_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_PORT_SENDS_H_
