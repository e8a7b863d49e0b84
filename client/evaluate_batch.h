// Evaluates cases, one JSON object a line, with several calls in flight.
#ifndef HAPMOE_CLIENT_EVALUATE_BATCH_H_
#define HAPMOE_CLIENT_EVALUATE_BATCH_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/options.h"

namespace hapmoe::client {

// A case is {"id", "megatron_args": [...], "world_size", "cluster": {...}}; other keys are ignored.
// Its answer is {"id", "iteration_seconds", "tokens_per_second", "model_flops_utilization",
// "peak_memory_bytes", "fits", "basis": {...}} or {"id", "error", "violations": [{"field",
// "description", "rule"}]}. Answers come in the order of the cases, and a line that is not a case
// is answered like any other. Memory does not grow with the number of cases.
class EvaluateBatch {
 public:
  // Both outlive this object.
  EvaluateBatch(Connection& connection, const Options& options)
      : connection_(connection), options_(options) {}

  // Reads `in` to its end. kServerFailed when the server failed on some case; it ends there when
  // the server cannot be reached. Called once.
  ExitCode Run(std::istream& in, const Console& console);

 private:
  // A case between its line and its answer.
  struct Case {
    int64_t line = 0;
    std::string id;       // JSON, empty where the case has none.
    std::string refusal;  // Why there is nothing to ask.
    v1::EvaluateRequest request;
    std::unique_ptr<grpc::ClientContext> context;
    v1::EvaluateResponse response;
    grpc::Status status;
    int attempts = 0;
    bool done = false;  // Guarded by mutex_, as are response and status until it is set.
  };

  // The next case of `in`, or null at its end.
  std::unique_ptr<Case> ReadCase(std::istream& in);
  void ParseCase(absl::string_view text, Case& c) const;
  void Start(Case& c);
  void Await(Case& c);
  // How long to wait before asking again, if that is what the answer says.
  static std::optional<absl::Duration> RetryDelay(const Case& c);
  static std::string AnswerLine(const Case& c);

  Connection& connection_;
  const Options& options_;
  int64_t lines_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_EVALUATE_BATCH_H_
