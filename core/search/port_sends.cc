#include "core/search/port_sends.h"

#include <algorithm>

namespace hapmoe::search {

PortSends::PortSends(const std::vector<std::vector<double>>& seconds)
    : seconds_(seconds), back_(seconds.size()), class_before_(seconds.size()) {
  for (size_t port = 0; port < seconds.size(); ++port) {
    std::vector<double>& back = back_[port];
    for (size_t before = 0; before < seconds.size(); ++before) {
      const auto same = std::find(back.begin(), back.end(), seconds[before][port]);
      class_before_[port].push_back(static_cast<size_t>(same - back.begin()));
      if (same == back.end()) back.push_back(seconds[before][port]);
    }
    first_class_.push_back(classes_);
    classes_ += back.size();
    least_.push_back(*std::min_element(back.begin(), back.end()));
    most_.push_back(*std::max_element(back.begin(), back.end()));
  }
}

}  // namespace hapmoe::search
