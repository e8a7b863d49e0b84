#include "core/plan/megatron_rules.h"

#include <array>
#include <vector>

#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

constexpr size_t kScopes = 5;

const std::vector<Rule>& AllRules() {
  static const auto* const rules = [] {
    auto* made = new std::vector<Rule>;
    for (absl::Span<const Rule> part :
         {WorldRules(), LayoutRules(), RecomputeRules(), ExpertRules(), OptimizerRules()}) {
      made->insert(made->end(), part.begin(), part.end());
    }
    return made;
  }();
  return *rules;
}

// The rules of each scope, by the position of its bit.
const std::array<std::vector<const Rule*>, kScopes>& RulesByScope() {
  static const auto* const by_scope = [] {
    auto* made = new std::array<std::vector<const Rule*>, kScopes>;
    for (const Rule& rule : AllRules()) {
      for (size_t bit = 0; bit < kScopes; ++bit) {
        if (rule.scope == 1u << bit) (*made)[bit].push_back(&rule);
      }
    }
    return made;
  }();
  return *by_scope;
}

}  // namespace

int64_t RuleContext::dp() const {
  const int64_t model_ranks = parallel->tp * parallel->pp * parallel->cp;
  return model_ranks > 0 && world_size % model_ranks == 0 ? world_size / model_ranks : 0;
}

int64_t RuleContext::expert_dp() const {
  const int64_t model_ranks = parallel->expert_tp() * parallel->ep * parallel->pp;
  return model_ranks > 0 && world_size % model_ranks == 0 ? world_size / model_ranks : 0;
}

int64_t RuleContext::global_batch() const {
  return facts->global_batch_given ? training->global_batch : training->micro_batch * dp();
}

int64_t RuleContext::micro_batches() const {
  const int64_t samples = training->micro_batch * dp();
  return samples > 0 ? global_batch() / samples : 0;
}

absl::Span<const Rule> MegatronRules() { return AllRules(); }

Violations CheckAll(const RuleContext& context, uint32_t scopes) {
  RuleContext resolved = context;
  PipelineLayout layout;
  if (context.parallel->layout.has_value()) {
    layout = ParsePipelineLayout(*context.parallel->layout);
    resolved.layout = &layout;
  }
  resolved.virtual_stages = VirtualStages(*context.parallel, context.model->layers, &layout);
  Violations violations;
  for (const Rule& rule : AllRules()) {
    if ((rule.scope & scopes) == 0 || rule.holds(resolved)) continue;
    violations.push_back({std::string(rule.name), std::string(rule.field), rule.message(resolved)});
  }
  return violations;
}

Violations CheckJob(const model::TransformerSpec& model, const model::TrainingSpec& training,
                    const EngineFacts& facts) {
  const ParallelSpec parallel;
  RuleContext context;
  context.model = &model;
  context.training = &training;
  context.parallel = &parallel;
  context.facts = &facts;
  context.world_size = 1;
  return CheckAll(context, kJobScope);
}

const Rule* FirstBroken(const RuleContext& context, Scope scope) {
  for (size_t bit = 0; bit < kScopes; ++bit) {
    if (scope != 1u << bit) continue;
    for (const Rule* rule : RulesByScope()[bit]) {
      if (!rule->holds(context)) return rule;
    }
  }
  return nullptr;
}

}  // namespace hapmoe::plan
