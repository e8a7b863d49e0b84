#include "server/plan_cache/kept_answer.h"

#include <utility>

#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

size_t BytesOf(const std::string& text) { return text.capacity() + 1; }

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
  auto kept = std::make_shared<KeptAnswer>();
  kept->basis = std::move(basis);
  if (!answer.ok()) {
    kept->status = answer.status();
    return kept;
  }
  answer->SerializeToString(&kept->wire);
  kept->wire.shrink_to_fit();
  kept->plan_ids.push_back(answer->plan().plan_id());
  if (answer->has_uniform()) kept->plan_ids.push_back(answer->uniform().plan().plan_id());
  for (const v1::Alternative& alternative : answer->alternatives()) {
    kept->plan_ids.push_back(alternative.plan().plan_id());
  }
  return kept;
}

bool MayBeKept(const absl::Status& status) {
  return status.ok() || ReasonOf(status) == Reason::kNoPlanFits;
}

}  // namespace hapmoe::server
