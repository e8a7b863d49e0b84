#include "client/evaluate_batch.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster_file.h"
#include "client/failure_text.h"
#include "client/json_object.h"
#include "client/plan_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

// Enough to keep a server's threads busy across a network's latency, few enough for its queue.
constexpr size_t kWindow = 16;
constexpr size_t kMaxLineBytes = 4 << 20;
constexpr int kMaxAttempts = 8;

// Reads a line without its end. False at the end of `in`. Of a line above the limit, one byte more
// than the limit is kept.
bool ReadLine(std::istream& in, std::string& line) {
  line.clear();
  using Traits = std::istream::traits_type;
  std::streambuf& buffer = *in.rdbuf();
  for (int c = buffer.sbumpc();; c = buffer.sbumpc()) {
    if (Traits::eq_int_type(c, Traits::eof())) return !line.empty();
    if (c == '\n') return true;
    if (line.size() <= kMaxLineBytes) line.push_back(Traits::to_char_type(c));
  }
}

std::string ViolationJson(absl::string_view field, absl::string_view description,
                          absl::string_view rule) {
  return JsonObject()
      .AddString("field", field)
      .AddString("description", description)
      .AddString("rule", rule)
      .Text();
}

std::string ViolationsJson(const FailureDetails& details) {
  std::vector<std::string> violations;
  for (const auto& violation : details.fields) {
    violations.push_back(
        ViolationJson(violation.field(), violation.description(), violation.reason()));
  }
  for (const auto& violation : details.conditions) {
    violations.push_back(
        ViolationJson(violation.subject(), violation.description(), violation.type()));
  }
  for (const google::rpc::ResourceInfo& resource : details.resources) {
    violations.push_back(
        ViolationJson(resource.resource_name(), resource.description(), resource.resource_type()));
  }
  return absl::StrCat("[", absl::StrJoin(violations, ", "), "]");
}

// What the allocator has in use at most on each stage, in pipeline order: sources print one rank's.
std::string StagesJson(const v1::ExecutionPlan& plan) {
  std::vector<int64_t> allocated;
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      const v1::MemoryBreakdown& memory = stage.memory();
      allocated.push_back(memory.peak_bytes() - memory.slack_bytes() -
                          memory.communication_bytes() - memory.framework_bytes());
    }
  }
  return absl::StrCat("[", absl::StrJoin(allocated, ", "), "]");
}

// Of the stage that is fullest.
std::string MemoryJson(const v1::ExecutionPlan& plan) {
  const v1::MemoryBreakdown* fullest = nullptr;
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      if (fullest == nullptr || stage.memory().peak_bytes() > fullest->peak_bytes()) {
        fullest = &stage.memory();
      }
    }
  }
  if (fullest == nullptr) return "null";
  return JsonObject()
      .AddString("moment", MomentText(fullest->moment()))
      .Add("parameters_bytes", absl::StrCat(fullest->parameters_bytes()))
      .Add("gradients_bytes", absl::StrCat(fullest->gradients_bytes()))
      .Add("optimizer_bytes", absl::StrCat(fullest->optimizer_bytes()))
      .Add("placeholder_bytes", absl::StrCat(fullest->placeholder_bytes()))
      .Add("activations_bytes", absl::StrCat(fullest->activations_bytes()))
      .Add("working_set_bytes", absl::StrCat(fullest->working_set_bytes()))
      .Add("logits_bytes", absl::StrCat(fullest->logits_bytes()))
      .Add("dispatch_bytes", absl::StrCat(fullest->dispatch_bytes()))
      .Add("slack_bytes", absl::StrCat(fullest->slack_bytes()))
      .Add("communication_bytes", absl::StrCat(fullest->communication_bytes()))
      .Add("framework_bytes", absl::StrCat(fullest->framework_bytes()))
      .Add("budget_bytes", absl::StrCat(fullest->budget_bytes()))
      .AddNumber("in_flight_micro_batches", fullest->in_flight_micro_batches())
      .Text();
}

std::string TimeJson(const v1::TimeBreakdown& time) {
  return JsonObject()
      .AddNumber("compute_seconds", time.compute_seconds())
      .AddNumber("recompute_seconds", time.recompute_seconds())
      .AddNumber("tensor_parallel_seconds", time.tensor_parallel_seconds())
      .AddNumber("context_parallel_seconds", time.context_parallel_seconds())
      .AddNumber("expert_parallel_seconds", time.expert_parallel_seconds())
      .AddNumber("pipeline_seconds", time.pipeline_seconds())
      .AddNumber("launch_seconds", time.launch_seconds())
      .AddNumber("bubble_seconds", time.bubble_seconds())
      .AddNumber("gradient_sync_seconds", time.gradient_sync_seconds())
      .AddNumber("optimizer_seconds", time.optimizer_seconds())
      .Text();
}

// The identifier as the case wrote it, where it can be one.
std::string IdJson(const google::protobuf::Value& value) {
  if (value.has_string_value()) return JsonString(value.string_value());
  if (value.has_number_value()) return JsonNumber(value.number_value());
  return "";
}

}  // namespace

void EvaluateBatch::ParseCase(absl::string_view text, Case& c) const {
  if (text.size() > kMaxLineBytes) {
    c.refusal = absl::StrCat("line ", c.line, " is longer than ", kMaxLineBytes, " bytes");
    return;
  }
  google::protobuf::Struct object;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &object);
  if (!parsed.ok()) {
    c.refusal = absl::StrCat("line ", c.line, " is not a JSON object");
    return;
  }
  const auto& fields = object.fields();
  if (const auto id = fields.find("id"); id != fields.end()) c.id = IdJson(id->second);

  const auto arguments = fields.find("megatron_args");
  if (arguments == fields.end() || !arguments->second.has_list_value()) {
    c.refusal = "megatron_args must be a list of strings";
    return;
  }
  for (const google::protobuf::Value& value : arguments->second.list_value().values()) {
    if (!value.has_string_value()) {
      c.refusal = "megatron_args must be a list of strings";
      return;
    }
    c.request.mutable_job()->add_megatron_args(value.string_value());
  }
  if (const auto size = fields.find("world_size"); size != fields.end()) {
    const double number = size->second.number_value();
    if (!(number >= 1 && number <= 1e9 && number == std::floor(number))) {
      c.refusal = "world_size must be a whole number above 0";
      return;
    }
    c.request.set_world_size(static_cast<int32_t>(number));
  }
  const auto cluster = fields.find("cluster");
  if (cluster == fields.end()) {
    c.refusal = "cluster is missing";
    return;
  }
  // Through the reader of cluster files, so that both are equally strict.
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(cluster->second, &json).ok()) {
    c.refusal = "cluster is not JSON";
    return;
  }
  std::vector<std::string> faults;
  for (const TextFault& fault : ParseCluster(json, *c.request.mutable_cluster())) {
    faults.push_back(fault.what);
  }
  if (!faults.empty()) c.refusal = absl::StrCat("cluster: ", absl::StrJoin(faults, "; "));
}

std::unique_ptr<EvaluateBatch::Case> EvaluateBatch::ReadCase(std::istream& in) {
  std::string line;
  do {
    if (!ReadLine(in, line)) return nullptr;
    ++lines_;
  } while (absl::StripAsciiWhitespace(line).empty());
  auto c = std::make_unique<Case>();
  c->line = lines_;
  ParseCase(line, *c);
  if (options_.constraints.has_memory_headroom_ratio()) {
    c->request.set_memory_headroom_ratio(options_.constraints.memory_headroom_ratio());
  }
  c->request.set_request_id(options_.request_id);
  return c;
}

void EvaluateBatch::Start(Case& c) {
  ++c.attempts;
  c.context = std::make_unique<grpc::ClientContext>();
  connection_.Prepare(*c.context);
  c.done = false;
  connection_.planner().async()->Evaluate(c.context.get(), &c.request, &c.response,
                                          [this, &c](grpc::Status status) {
                                            // Notified under the lock: once it is released, the
                                            // case may be gone.
                                            const std::lock_guard<std::mutex> lock(mutex_);
                                            c.status = std::move(status);
                                            c.done = true;
                                            changed_.notify_one();
                                          });
}

void EvaluateBatch::Await(Case& c) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&c] { return c.done; });
}

std::optional<absl::Duration> EvaluateBatch::RetryDelay(const Case& c) {
  if (c.status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED || c.attempts >= kMaxAttempts) {
    return std::nullopt;
  }
  const absl::Duration delay =
      ReadDetails(c.status).retry_delay.value_or(absl::Milliseconds(50 << c.attempts));
  return std::min(delay, absl::Seconds(10));
}

std::string EvaluateBatch::AnswerLine(const Case& c) {
  JsonObject line;
  if (!c.id.empty()) line.Add("id", c.id);
  if (!c.refusal.empty()) return line.AddString("error", c.refusal).Add("violations", "[]").Text();
  if (!c.status.ok()) {
    return line.AddString("error", c.status.error_message())
        .Add("violations", ViolationsJson(ReadDetails(c.status)))
        .Text();
  }
  const v1::Prediction& prediction = c.response.prediction();
  const v1::Basis& basis = prediction.basis();
  return line.AddNumber("iteration_seconds", prediction.iteration_seconds())
      .AddNumber("low_iteration_seconds", prediction.low_iteration_seconds())
      .AddNumber("high_iteration_seconds", prediction.high_iteration_seconds())
      .AddNumber("tokens_per_second", prediction.tokens_per_second())
      .AddNumber("model_flops_utilization", prediction.model_flops_utilization())
      .Add("peak_memory_bytes", absl::StrCat(prediction.peak_memory_bytes()))
      .Add("allocated_memory_bytes", absl::StrCat(prediction.peak_memory_bytes()))
      .Add("reserved_memory_bytes", absl::StrCat(prediction.reserved_memory_bytes()))
      .Add("device_memory_bytes", absl::StrCat(prediction.device_memory_bytes()))
      .Add("stage_allocated_memory_bytes", StagesJson(c.response.plan()))
      .Add("memory", MemoryJson(c.response.plan()))
      .AddBool("fits", prediction.fits())
      .Add("basis", JsonObject()
                        .AddNumber("measured_ratio", basis.measured_ratio())
                        .AddNumber("interpolated_ratio", basis.interpolated_ratio())
                        .AddNumber("analytic_ratio", basis.analytic_ratio())
                        .AddNumber("communication_ratio", basis.communication_ratio())
                        .AddNumber("launch_ratio", basis.launch_ratio())
                        .Text())
      .Add("time", TimeJson(prediction.time()))
      .Text();
}

ExitCode EvaluateBatch::Run(std::istream& in, const Console& console) {
  ExitCode code = kDone;
  bool reading = true;
  std::deque<std::unique_ptr<Case>> window;
  while (true) {
    while (reading && window.size() < kWindow) {
      std::unique_ptr<Case> next = ReadCase(in);
      if (next == nullptr) {
        reading = false;
        break;
      }
      if (next->refusal.empty()) {
        Start(*next);
      } else {
        next->done = true;
      }
      window.push_back(std::move(next));
    }
    if (window.empty()) break;
    Case& front = *window.front();
    Await(front);
    if (const std::optional<absl::Duration> delay = RetryDelay(front); delay) {
      std::this_thread::sleep_for(absl::ToChronoMicroseconds(*delay));
      Start(front);
      continue;
    }
    console.out << AnswerLine(front) << "\n";
    if (!front.status.ok() && ExitCodeOf(front.status) == kServerFailed) {
      // Said once: what follows has most likely the same cause, and is on standard output.
      if (code == kDone) console.err << FailureText(front.status, connection_.server());
      code = kServerFailed;
      if (reading && front.status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        reading = false;
        console.err << "hapmoe: no case after line " << lines_ << " was evaluated\n";
      }
    }
    window.pop_front();
  }
  console.out << std::flush;
  return code;
}

}  // namespace hapmoe::client
