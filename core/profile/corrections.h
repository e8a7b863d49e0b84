// What measured iterations say about a profile: factors on the times and bytes that it predicts.
#ifndef HAPMOE_CORE_PROFILE_CORRECTIONS_H_
#define HAPMOE_CORE_PROFILE_CORRECTIONS_H_

#include <array>
#include <cstddef>

namespace hapmoe::profile {

// What one factor is about. Each has a cause of its own in an accelerator type and its software,
// none in a job.
enum class Term {
  kProducts,      // Matrix products in 16 and 32 bit, and layers that were measured whole.
  kLowPrecision,  // Matrix products in 8 bit.
  kAttention,
  kMemory,       // Operations that move memory, and the optimizer step.
  kScaleUp,      // Communication inside a scale-up domain.
  kNetwork,      // Communication between domains.
  kHost,         // What the host takes to issue operations.
  kRouting,      // Dispatch, routed experts and combine, on top of what they compute and send.
  kActivations,  // Memory that comes and goes: activations, working sets, logits, dispatch.
  kSlack,        // What the allocator holds beyond what is in use.
};
inline constexpr size_t kTerms = 10;
inline constexpr const char* kTermNames[kTerms] = {
    "products", "low_precision", "attention", "memory",      "scale_up",
    "network",  "host",          "routing",   "activations", "slack"};

// Factors above 0; with all of them 1 nothing changes, to the last bit.
class Corrections {
 public:
  Corrections() { factors_.fill(1); }

  double of(Term term) const { return factors_[static_cast<size_t>(term)]; }
  void set(Term term, double factor) { factors_[static_cast<size_t>(term)] = factor; }

  friend bool operator==(const Corrections&, const Corrections&) = default;

 private:
  std::array<double, kTerms> factors_;
};

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_CORRECTIONS_H_
