// The server's program with what a trial sees of it from outside.
#ifndef HAPMOE_TESTS_TRIAL_SERVER_UNDER_TRIAL_H_
#define HAPMOE_TESTS_TRIAL_SERVER_UNDER_TRIAL_H_

#include <map>
#include <string>
#include <vector>

#include "tests/bench/load/process_figures.h"
#include "tests/server/testing/server_program.h"
#include "tests/trial/calls.h"
#include "tests/trial/verdict.h"

namespace hapmoe::trial {

// The series of /metrics at one moment.
class MetricsNow {
 public:
  explicit MetricsNow(const std::string& text);

  // The value of a series, "name{label=\"value\"}"; 0 if there is none.
  double Value(const std::string& series) const;
  // Of all series whose text begins so.
  double Sum(const std::string& prefix) const;
  // Of a histogram, `labels` as in the text, "method=\"Plan\"": how many it holds, and how many of
  // those are at most `bound`, which is one of its own, as it is written there.
  double Count(const std::string& name, const std::string& labels) const;
  double AtMost(const std::string& name, const std::string& labels, const std::string& bound) const;

 private:
  std::map<std::string, double> values_;
};

// Listens on free ports of 127.0.0.1. Used by one thread, but for what only reads.
class ServerUnderTrial {
 public:
  // `program`: the path of hapmoed. Ends this process if it does not serve.
  ServerUnderTrial(const std::string& program, std::vector<std::string> flags);

  server::ServerProgram& program() { return program_; }
  int port() const { return port_; }
  std::string address() const;
  MetricsNow Metrics() const;
  bench::ProcessFigures Figures() const { return bench::FiguresOf(program_.pid()); }

  // Whether within `timeout` no call is in flight, none waits, and no thread is at work.
  bool BecomesIdle(std::chrono::nanoseconds timeout) const;

 private:
  server::ServerProgram program_;
  int port_ = 0;
  int metrics_port_ = 0;
};

// By the server's own clock: no call was answered later than its deadline allows.
void JudgeDeadlines(const MetricsNow& metrics, Verdict& verdict);

}  // namespace hapmoe::trial

#endif  // HAPMOE_TESTS_TRIAL_SERVER_UNDER_TRIAL_H_
