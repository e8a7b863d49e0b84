#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

v1::SuggestedChange::Kind KindToWire(search::Suggestion::Kind kind) {
  switch (kind) {
    case search::Suggestion::Kind::kAllowIdle:
      return v1::SuggestedChange::KIND_ALLOW_IDLE;
    case search::Suggestion::Kind::kChooseRecompute:
      return v1::SuggestedChange::KIND_CHOOSE_RECOMPUTE;
    case search::Suggestion::Kind::kMicroBatch:
      return v1::SuggestedChange::KIND_MICRO_BATCH;
    case search::Suggestion::Kind::kDegree:
      return v1::SuggestedChange::KIND_DEGREE;
    case search::Suggestion::Kind::kShardOptimizer:
      return v1::SuggestedChange::KIND_SHARD_OPTIMIZER;
    case search::Suggestion::Kind::kOffloadOptimizer:
      return v1::SuggestedChange::KIND_OFFLOAD_OPTIMIZER;
    case search::Suggestion::Kind::kAddNodes:
      return v1::SuggestedChange::KIND_ADD_NODES;
  }
  return v1::SuggestedChange::KIND_UNSPECIFIED;
}

v1::SuggestedChange ChangeToWire(const search::Suggestion& suggestion) {
  v1::SuggestedChange wire;
  wire.set_kind(KindToWire(suggestion.kind));
  wire.set_amount(suggestion.amount);
  wire.set_subject(suggestion.subject);
  wire.set_sentence(suggestion.sentence);
  return wire;
}

}  // namespace

v1::SuggestedChanges SuggestedChangesToWire(const search::Infeasibility& infeasibility) {
  v1::SuggestedChanges wire;
  for (const search::Suggestion& suggestion : infeasibility.suggestions) {
    *wire.add_alternatives() = ChangeToWire(suggestion);
  }
  for (const search::Suggestion& suggestion : infeasibility.together) {
    *wire.add_together() = ChangeToWire(suggestion);
  }
  return wire;
}

}  // namespace hapmoe::server
