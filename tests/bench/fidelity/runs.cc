#include "tests/bench/fidelity/runs.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <fstream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "core/cost/evaluate.h"
#include "server/planning/problem_reader.h"

namespace hapmoe::fidelity {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

std::string TextAt(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  return field == object.fields().end() ? "" : field->second.string_value();
}

// The arguments but for the global batch, and the release of the source.
std::string JobOf(const Struct& c, const v1::EvaluateRequest& request) {
  std::vector<std::string> parts = {TextAt(c, "family"), request.cluster().pools(0).accelerator()};
  const std::string source = TextAt(c, "source");
  const size_t at = source.find('@');
  parts.push_back(at == std::string::npos ? "" : source.substr(at));
  for (int i = 0; i < request.job().megatron_args_size(); ++i) {
    if (request.job().megatron_args(i) == "--global-batch-size") {
      ++i;
    } else {
      parts.push_back(request.job().megatron_args(i));
    }
  }
  return absl::StrJoin(parts, " ");
}

}  // namespace

absl::StatusOr<std::vector<Run>> ReadRuns(const std::string& path,
                                          const server::ProfileCatalog& profiles,
                                          const server::EngineCatalog& engines) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError("cannot read " + path);
  std::vector<Run> runs;
  for (std::string line; std::getline(file, line);) {
    Struct c;
    if (!google::protobuf::util::JsonStringToMessage(line, &c).ok()) {
      return absl::InvalidArgumentError(path + " is not JSON");
    }
    v1::EvaluateRequest request;
    for (const Value& word : c.fields().at("megatron_args").list_value().values()) {
      request.mutable_job()->add_megatron_args(word.string_value());
    }
    request.set_world_size(static_cast<int32_t>(c.fields().at("world_size").number_value()));
    std::string cluster;
    if (!google::protobuf::util::MessageToJsonString(c.fields().at("cluster"), &cluster).ok() ||
        !google::protobuf::util::JsonStringToMessage(cluster, request.mutable_cluster()).ok()) {
      return absl::InvalidArgumentError("a cluster of " + path + " cannot be read");
    }
    const auto& measured = c.fields().at("measured").struct_value().fields();
    const auto seconds = measured.find("iteration_seconds");
    if (seconds == measured.end() || !(seconds->second.number_value() > 0)) continue;
    const auto layout = server::ReadEvaluateRequest(request, profiles, engines);
    if (!layout.ok()) continue;
    Run run;
    run.id = TextAt(c, "id");
    run.family = TextAt(c, "family");
    run.job = JobOf(c, request);
    run.current = c.fields().count("current") > 0 && c.fields().at("current").bool_value();
    run.consistent = TextAt(c, "inconsistent").empty();
    run.world_size = request.world_size();
    run.global_batch = layout->plan.global_batch;
    run.observation.problem = std::make_shared<const cost::Problem>(layout->problem.problem);
    run.observation.plan = layout->plan;
    run.observation.seconds = seconds->second.number_value();
    run.observation.run = run.id;
    const auto prediction = cost::Evaluate(*run.observation.problem, run.observation.plan);
    if (!prediction.ok()) continue;
    run.predicted_seconds = prediction->iteration_seconds;
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace hapmoe::fidelity
