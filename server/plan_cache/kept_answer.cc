#include "server/plan_cache/kept_answer.h"

#include <utility>

#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

size_t BytesOf(const std::string& text) { return text.capacity() + 1; }

std::vector<std::string> PlanIdsOf(const v1::PlanAnswer& answer) {
  std::vector<std::string> ids = {answer.plan().plan_id()};
  if (answer.has_uniform()) ids.push_back(answer.uniform().plan().plan_id());
  for (const v1::Alternative& alternative : answer.alternatives()) {
    ids.push_back(alternative.plan().plan_id());
  }
  return ids;
}

KeptAnswerPtr Kept(const google::protobuf::Message& response, std::vector<std::string> plan_ids,
                   PlanBasis basis) {
  auto kept = std::make_shared<KeptAnswer>();
  response.SerializeToString(&kept->wire);
  kept->wire.shrink_to_fit();
  kept->plan_ids = std::move(plan_ids);
  kept->basis = std::move(basis);
  return kept;
}

}  // namespace

size_t KeptAnswer::bytes() const {
  size_t bytes = sizeof(*this) + BytesOf(wire) + basis.bytes();
  for (const std::string& id : plan_ids) bytes += sizeof(std::string) + BytesOf(id);
  bytes += status.message().size();
  status.ForEachPayload([&bytes](absl::string_view type, const absl::Cord& detail) {
    bytes += type.size() + detail.size();
  });
  return bytes;
}

KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::PlanAnswer>& answer, PlanBasis basis) {
  if (!answer.ok()) return MakeKeptFailure(answer.status(), std::move(basis));
  v1::PlanResponse response;
  *response.mutable_answer() = *answer;
  return Kept(response, PlanIdsOf(*answer), std::move(basis));
}

KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::FrontierResponse>& response,
                             PlanBasis basis) {
  if (!response.ok()) return MakeKeptFailure(response.status(), std::move(basis));
  return Kept(*response, {}, std::move(basis));
}

KeptAnswerPtr MakeKeptAnswer(const absl::StatusOr<v1::ExplainResponse>& response, PlanBasis basis) {
  if (!response.ok()) return MakeKeptFailure(response.status(), std::move(basis));
  return Kept(*response, PlanIdsOf(response->best()), std::move(basis));
}

KeptAnswerPtr MakeKeptFailure(const absl::Status& status, PlanBasis basis) {
  auto kept = std::make_shared<KeptAnswer>();
  kept->status = status;
  kept->basis = std::move(basis);
  return kept;
}

bool MayBeKept(const absl::Status& status) {
  return status.ok() || ReasonOf(status) == Reason::kNoPlanFits;
}

}  // namespace hapmoe::server
