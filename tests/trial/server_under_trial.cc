#include "tests/trial/server_under_trial.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::trial {
namespace {

std::vector<std::string> OnFreePorts(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0"});
  return flags;
}

}  // namespace

MetricsNow::MetricsNow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.empty() || line.front() == '#' || space == std::string::npos) continue;
    values_[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
  }
}

double MetricsNow::Value(const std::string& series) const {
  const auto found = values_.find(series);
  return found == values_.end() ? 0 : found->second;
}

double MetricsNow::Sum(const std::string& prefix) const {
  double sum = 0;
  for (auto it = values_.lower_bound(prefix);
       it != values_.end() && absl::StartsWith(it->first, prefix); ++it) {
    sum += it->second;
  }
  return sum;
}

double MetricsNow::Count(const std::string& name, const std::string& labels) const {
  return Value(absl::StrCat(name, "_count", labels.empty() ? "" : absl::StrCat("{", labels, "}")));
}

double MetricsNow::AtMost(const std::string& name, const std::string& labels,
                          const std::string& bound) const {
  return Value(
      absl::StrCat(name, "_bucket{", labels, labels.empty() ? "" : ",", "le=\"", bound, "\"}"));
}

ServerUnderTrial::ServerUnderTrial(const std::string& program, std::vector<std::string> flags)
    : program_(program, OnFreePorts(std::move(flags))) {
  port_ = program_.Port();
  metrics_port_ = program_.MetricsPort();
  if (port_ > 0) return;
  std::fprintf(stderr, "%s does not serve:\n%s", program.c_str(), program_.Log().c_str());
  std::exit(2);
}

std::string ServerUnderTrial::address() const { return absl::StrCat("127.0.0.1:", port_); }

MetricsNow ServerUnderTrial::Metrics() const {
  return MetricsNow(server::HttpGet(metrics_port_, "/metrics"));
}

bool ServerUnderTrial::BecomesIdle(std::chrono::nanoseconds timeout) const {
  for (const auto end = Clock::now() + timeout; Clock::now() < end;) {
    const MetricsNow now = Metrics();
    if (now.Value("hapmoe_pool_threads{pool=\"search\"}") > 0 &&
        now.Value("hapmoe_inflight_requests") == 0 && now.Sum("hapmoe_queue_depth{") == 0 &&
        now.Sum("hapmoe_pool_busy_threads{") == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

void JudgeDeadlines(const MetricsNow& metrics, Verdict& verdict) {
  constexpr char kOverrun[] = "hapmoe_deadline_overrun_seconds";
  const double late = metrics.Count(kOverrun, "");
  std::string text;
  for (const char* bound : {"0.001", "0.005", "0.01", "0.02", "0.05", "0.1", "0.5", "1", "5"}) {
    absl::StrAppend(&text, ", <= ", bound, " s: ", metrics.AtMost(kOverrun, "", bound));
  }
  verdict.Tell(absl::StrCat("answered after their deadline, at the server: ", late, text));
  const char* const limit = verdict.strict() ? "0.02" : "0.5";
  verdict.RequireAtMost(late - metrics.AtMost(kOverrun, "", limit), 0,
                        absl::StrCat("later than ", limit, " s"), "calls");
}

}  // namespace hapmoe::trial
