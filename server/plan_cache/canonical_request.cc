#include "server/plan_cache/canonical_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/model/training_spec.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using google::protobuf::Message;

bool SaysNothing(const Message& message) { return message.ByteSizeLong() == 0; }

// Maps in the order of their keys.
void AppendDeterministic(const Message& message, std::string& out) {
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
}

std::string Deterministic(const Message& message) {
  std::string bytes;
  AppendDeterministic(message, bytes);
  return bytes;
}

// Sorted, each once.
template <typename Repeated>
void MakeSet(Repeated& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void CanonicalizeConstraints(v1::Constraints& constraints) {
  if (constraints.engine().empty()) constraints.set_engine(kDefaultEngine);
  if (!constraints.has_memory_headroom_ratio()) {
    constraints.set_memory_headroom_ratio(kDefaultMemoryHeadroomRatio);
  }
  for (auto* degrees :
       {constraints.mutable_tp(), constraints.mutable_cp(), constraints.mutable_ep(),
        constraints.mutable_etp(), constraints.mutable_dp(), constraints.mutable_pp(),
        constraints.mutable_micro_batch_size(), constraints.mutable_virtual_stages()}) {
    MakeSet(*degrees);
  }
  MakeSet(*constraints.mutable_token_dispatcher());
  if (SaysNothing(constraints.prunings())) constraints.clear_prunings();
  // An answer that is kept or shared does not depend on it.
  constraints.clear_time_budget();
}

void CanonicalizeObjective(v1::Problem& problem) {
  v1::Objective& objective = *problem.mutable_objective();
  if (objective.kind() == v1::Objective::KIND_TIME) objective.clear_kind();
  if (SaysNothing(objective)) problem.clear_objective();
}

void CanonicalizePool(v1::Pool& pool) {
  if (pool.nodes() == 0) pool.set_nodes(static_cast<uint32_t>(pool.hosts_size()));
  if (pool.accelerators_per_node() == 0) {
    pool.set_accelerators_per_node(pool.devices().empty()
                                       ? static_cast<uint32_t>(kDefaultAcceleratorsPerNode)
                                       : static_cast<uint32_t>(pool.devices_size()));
  }
  if (SaysNothing(pool.network())) pool.clear_network();
}

void CanonicalizeLinks(v1::Cluster& cluster) {
  std::vector<std::pair<std::string, v1::Link>> links;
  for (v1::Link& link : *cluster.mutable_links()) {
    std::sort(link.mutable_between()->begin(), link.mutable_between()->end());
    links.emplace_back(Deterministic(link), link);
  }
  std::sort(links.begin(), links.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  cluster.clear_links();
  for (auto& [bytes, link] : links) *cluster.add_links() = std::move(link);
}

void CanonicalizeProblem(v1::Problem& problem) {
  CanonicalizeConstraints(*problem.mutable_constraints());
  CanonicalizeObjective(problem);
  v1::Job& job = *problem.mutable_job();
  if (job.entry().empty()) job.set_entry(kDefaultEntry);
  if (!job.has_imbalance_quantile()) job.set_imbalance_quantile(model::kDefaultImbalanceQuantile);
  for (v1::Pool& pool : *problem.mutable_cluster()->mutable_pools()) CanonicalizePool(pool);
  CanonicalizeLinks(*problem.mutable_cluster());
}

// A letter for the kind, the planner's version, a zero and the request.
constexpr char kKindLetters[kAnswerKinds] = {'P', 'F', 'E'};

char LetterOf(AnswerKind kind) { return kKindLetters[static_cast<size_t>(kind)]; }

template <typename Request>
std::string FormOf(Request canonical, absl::string_view planner_version) {
  canonical.clear_request_id();
  canonical.clear_cache_policy();
  CanonicalizeProblem(*canonical.mutable_problem());
  std::string form(1, LetterOf(KindOf(canonical)));
  form.append(planner_version.data(), planner_version.size());
  form.push_back('\0');
  form.reserve(form.size() + canonical.ByteSizeLong());
  AppendDeterministic(canonical, form);
  return form;
}

}  // namespace

std::string CanonicalForm(const v1::PlanRequest& request, absl::string_view planner_version) {
  v1::PlanRequest canonical = request;
  if (SaysNothing(canonical.launch())) canonical.clear_launch();
  return FormOf(std::move(canonical), planner_version);
}

std::string CanonicalForm(const v1::FrontierRequest& request, absl::string_view planner_version) {
  return FormOf(request, planner_version);
}

std::string CanonicalForm(const v1::ExplainRequest& request, absl::string_view planner_version) {
  return FormOf(request, planner_version);
}

template <typename Request>
std::optional<Request> RequestOf(const std::string& canonical_form) {
  Request request;
  const size_t version = canonical_form.find('\0');
  if (version == std::string::npos || canonical_form[0] != LetterOf(KindOf(request))) {
    return std::nullopt;
  }
  const char* const bytes = canonical_form.data() + version + 1;
  const auto size = static_cast<int>(canonical_form.size() - version - 1);
  if (!request.ParseFromArray(bytes, size)) return std::nullopt;
  return request;
}
template std::optional<v1::PlanRequest> RequestOf(const std::string&);
template std::optional<v1::ExplainRequest> RequestOf(const std::string&);

template <typename Request>
RequestIdentity IdentityOf(const Request& request, absl::string_view planner_version) {
  RequestIdentity identity;
  identity.kind = KindOf(request);
  identity.form = std::make_shared<const std::string>(CanonicalForm(request, planner_version));
  const v1::Constraints& constraints = request.problem().constraints();
  if (constraints.has_time_budget()) {
    identity.budget_nanoseconds =
        constraints.time_budget().seconds() * 1'000'000'000 + constraints.time_budget().nanos();
  }
  return identity;
}
template RequestIdentity IdentityOf(const v1::PlanRequest&, absl::string_view);
template RequestIdentity IdentityOf(const v1::FrontierRequest&, absl::string_view);
template RequestIdentity IdentityOf(const v1::ExplainRequest&, absl::string_view);

}  // namespace hapmoe::server
