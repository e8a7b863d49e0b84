// What a trial found: figures beside their limits, and whether all hold.
#ifndef HAPMOE_TESTS_TRIAL_VERDICT_H_
#define HAPMOE_TESTS_TRIAL_VERDICT_H_

#include <cstdint>
#include <string>

namespace hapmoe::trial {

// Prints as it is told. Used by one thread.
class Verdict {
 public:
  // `strict`: whether limits of time are those of the acceptance, which only a quiet machine keeps;
  // otherwise they are as many times larger as a machine needs that others use.
  explicit Verdict(bool strict) : strict_(strict) {}

  // A fact that must hold on any machine.
  void Require(bool holds, const std::string& what);
  void RequireEqual(int64_t value, int64_t wanted, const std::string& what);
  void RequireAtMost(double value, double most, const std::string& what, const char* unit);
  // A time. `lenient_seconds`: the limit unless this is strict.
  void RequireWithin(double seconds, double strict_seconds, double lenient_seconds,
                     const std::string& what);
  void Tell(const std::string& what) const;

  bool strict() const { return strict_; }
  bool holds() const { return failures_ == 0; }

 private:
  const bool strict_;
  int failures_ = 0;
};

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_VERDICT_H_
