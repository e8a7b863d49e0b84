// What the server counts, for Prometheus.
#ifndef HAPMOE_SERVER_METRICS_METRICS_H_
#define HAPMOE_SERVER_METRICS_METRICS_H_

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "hapmoe/v1/planner.pb.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/errors/reasons.h"

namespace hapmoe::server {

// Methods of all services. kMethodNames follows.
enum class Method {
  kPlan,
  kStreamPlan,
  kEvaluate,
  kFrontier,
  kExplain,
  kGetServerInfo,
  kPutProfile,
  kGetProfile,
  kListProfiles,
  kDeleteProfile,
  kReportIteration,
  kListReports,
  kDeleteReport,
  kListCorrections,
};
inline constexpr absl::string_view kMethodNames[] = {
    "Plan",         "StreamPlan",     "Evaluate",        "Frontier",
    "Explain",      "GetServerInfo",  "PutProfile",      "GetProfile",
    "ListProfiles", "DeleteProfile",  "ReportIteration", "ListReports",
    "DeleteReport", "ListCorrections"};

// How a call was served. kOutcomeNames follows.
enum class CallOutcome {
  kHit,   // From memory.
  kMiss,  // With work done for it.
  kShed,  // Refused: the queue was full, the server drains, or the client may not do this.
};
inline constexpr absl::string_view kOutcomeNames[] = {"hit", "miss", "shed"};

// All label values come from closed lists, and every series is exported from the start, as zero.
//
// Thread safe. Recording costs some atomic operations: the series are looked up once.
class Metrics {
 public:
  // `lookups`: how calls may get their plans.
  Metrics(absl::string_view version, absl::string_view commit,
          absl::Span<const absl::string_view> lookups = {});

  void RecordCall(Method method, const absl::Status& status, CallOutcome outcome,
                  std::chrono::nanoseconds duration);
  // A call was answered after its deadline.
  void RecordOverrun(std::chrono::nanoseconds overrun);
  void RecordQueueWait(std::chrono::nanoseconds wait);
  // A search that came to an answer, or to an error.
  void RecordAnswer(const v1::PlanAnswer& answer);
  void RecordSearchError(const absl::Status& status);
  // A call that asked for a plan without a fault, by an index into the names that the constructor
  // was given.
  void RecordCacheLookup(size_t result) { cache_lookups_.at(result)->Increment(); }
  // Profile files were read; how many of them were refused.
  void RecordReload(size_t failures);
  // Records of other servers that were refused.
  void RecordRefused(size_t records);

  // The accelerator types that reports are counted by; others count as "other". Call before
  // collectables().
  void AddReportedTypes(const std::vector<std::string>& accelerators);
  // A report of a plan that uses these types: measured over predicted time, without corrections and
  // with those before it.
  void RecordReport(const std::vector<std::string>& accelerators, double ratio_of_profiles,
                    double ratio_of_corrected);

  // A figure that is read when metrics are; `read` must be thread safe and outlive this.
  void AddGauge(const std::string& name, const std::string& help,
                const std::map<std::string, std::string>& labels, std::function<double()> read);

  // Everything, for an exposer. Call after the last AddGauge.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables() const;

 private:
  struct GaugeSource {
    prometheus::Gauge* gauge = nullptr;
    std::function<double()> read;
  };
  class GaugeReader;

  static constexpr size_t kMethods = std::size(kMethodNames);
  static constexpr size_t kOutcomes = std::size(kOutcomeNames);
  static constexpr size_t kCodes = 17;  // OK to UNAUTHENTICATED.

  const std::shared_ptr<prometheus::Registry> registry_;
  std::array<std::array<prometheus::Counter*, kCodes>, kMethods> calls_;
  std::array<std::array<prometheus::Histogram*, kOutcomes>, kMethods> durations_;
  std::array<prometheus::Counter*, std::size(kReasons)> errors_;
  prometheus::Histogram* overrun_;
  prometheus::Histogram* queue_wait_;
  std::vector<prometheus::Counter*> cache_lookups_;
  prometheus::Counter* candidates_opened_;
  prometheus::Counter* candidates_pruned_;
  std::map<std::string, prometheus::Counter*> terminations_;
  std::map<std::string, prometheus::Counter*> infeasible_;  // By rule; "other" for one unknown.
  struct Reported {
    prometheus::Histogram* of_profiles = nullptr;
    prometheus::Histogram* of_corrected = nullptr;
  };
  std::map<std::string, Reported> reported_;  // By accelerator type; "other" for one unknown.
  prometheus::Histogram* peak_memory_;
  prometheus::Counter* reload_failures_;
  prometheus::Gauge* last_reload_;
  std::vector<GaugeSource> gauges_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_METRICS_METRICS_H_
