// The trials; README.md says what each asks of the server.
#ifndef HAPMOE_TESTS_TRIAL_TRIALS_H_
#define HAPMOE_TESTS_TRIAL_TRIALS_H_

#include <chrono>
#include <string>

#include "tests/trial/verdict.h"

namespace hapmoe::trial {

struct TrialOptions {
  std::string program;  // The path of hapmoed.
  std::chrono::seconds soak{60};
};

void Overload(const TrialOptions& options, Verdict& verdict);
void Shed(const TrialOptions& options, Verdict& verdict);
void Cancel(const TrialOptions& options, Verdict& verdict);
void ClockJump(const TrialOptions& options, Verdict& verdict);
void Drain(const TrialOptions& options, Verdict& verdict);
void Soak(const TrialOptions& options, Verdict& verdict);

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_TRIALS_H_
