// What stages send to each other, by their ports.
#ifndef HAPMOE_CORE_SEARCH_PORT_SENDS_H_
#define HAPMOE_CORE_SEARCH_PORT_SENDS_H_

#include <cstddef>
#include <vector>

namespace hapmoe::search {

// What the front stage of a run sends back depends on the stage before it, which a dynamic program
// from the end does not know yet. Ports that may come before are in classes of equal sends.
class PortSends {
 public:
  // Seconds of one micro-batch from a port to another: [from][to]. Must outlive this object.
  explicit PortSends(const std::vector<std::vector<double>>& seconds);

  double Between(size_t from, size_t to) const { return seconds_[from][to]; }

  // Classes of all ports together, the number of the first class of a port, and the seconds of its
  // classes.
  size_t classes() const { return classes_; }
  size_t FirstClass(size_t port) const { return first_class_[port]; }
  const std::vector<double>& Back(size_t port) const { return back_[port]; }
  // The class, among those of `port`, that a port before it is in.
  size_t ClassBefore(size_t port, size_t before) const { return class_before_[port][before]; }

  // From a port that is not known, at the other end of the pipeline.
  double LeastFromAny(size_t port) const { return least_[port]; }
  double MostFromAny(size_t port) const { return most_[port]; }

 private:
  const std::vector<std::vector<double>>& seconds_;
  size_t classes_ = 0;
  std::vector<size_t> first_class_;
  std::vector<std::vector<double>> back_;          // [port][class]
  std::vector<std::vector<size_t>> class_before_;  // [port][port before it]
  std::vector<double> least_;
  std::vector<double> most_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_PORT_SENDS_H_
