#include "core/search/port_sends.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hapmoe::search {

PortSends::PortSends(const std::vector<Port>& ports, std::vector<std::vector<SendSeconds>> seconds,
                     std::vector<const cost::Fabric*> fabrics, int64_t unit_ranks, int64_t stages)
    : seconds_(std::move(seconds)),
      fabrics_(std::move(fabrics)),
      unit_ranks_(unit_ranks),
      back_(ports.size()),
      class_before_(ports.size()),
      least_(ports.size(), std::numeric_limits<double>::infinity()),
      most_(ports.size(), 0) {
  for (const Port& port : ports) units_.push_back(port.units);
  for (size_t port = 0; port < ports.size(); ++port) {
    std::vector<Before>& back = back_[port];
    for (size_t before = 0; before < ports.size(); ++before) {
      const SendSeconds& sends = seconds_[before][port];
      const auto [least, most] = std::minmax_element(sends.begin(), sends.end());
      const Before one = {sends, *least == *most ? 0 : ports[before].units};
      const auto same = std::find(back.begin(), back.end(), one);
      class_before_[port].push_back(static_cast<size_t>(same - back.begin()));
      if (same == back.end()) back.push_back(one);
      least_[port] = std::min(least_[port], *least);
      most_[port] = std::max(most_[port], *most);
    }
    first_class_.push_back(classes_);
    classes_ += back.size();
  }
  if (ports.size() == 1 && stages > 0) {
    // From one end of a pipeline to the other, whose place is known then.
    const cost::Reach reach =
        cost::ReachOf(*fabrics_.front(), 0, stages * ports.front().units * unit_ranks_);
    least_.front() = most_.front() = seconds_[0][0][static_cast<size_t>(reach)];
  }
}

}  // namespace hapmoe::search
