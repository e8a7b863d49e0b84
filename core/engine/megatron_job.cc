#include "core/engine/megatron_job.h"

#include <algorithm>
#include <utility>

#include "core/engine/megatron_job_reading.h"
#include "core/engine/option_values.h"
#include "core/plan/pipeline_layout.h"

namespace hapmoe::engine {
namespace {

// Faults after which the specs do not say what the job means.
bool Garbles(const Violation& violation) {
  static constexpr absl::string_view kRules[] = {"too_many_arguments",
                                                 "argument_too_long",
                                                 "missing_value",
                                                 "wrong_type",
                                                 "outside_choices",
                                                 "unexpected_value",
                                                 "missing_option",
                                                 "value_out_of_range",
                                                 "layer_pattern_invalid",
                                                 "model_too_large",
                                                 "unsupported_yaml_configuration",
                                                 "unsupported_checkpoint_arguments"};
  return std::find(std::begin(kRules), std::end(kRules), violation.rule) != std::end(kRules);
}

}  // namespace

MegatronJob ParseMegatronJob(absl::Span<const std::string> argv, Violations& violations) {
  MegatronJob job;
  Violations found;
  job.arguments = Arguments::Parse(argv, found);
  Violations shape;
  OptionValues values(job.arguments, &shape);
  ReadModel(values, job, shape);
  ReadTraining(values, job);
  ReadParallel(values, job);
  CheckOptions(values, job, found);
  // With the shape in a file, or an option unreadable, options count as missing that are not.
  const bool elsewhere = values.Has("yaml_cfg") || values.Flag("use_checkpoint_args") ||
                         values.Has("hybrid_layer_pattern");
  for (Violation& violation : shape) {
    const bool reported = std::any_of(found.begin(), found.end(), [&](const Violation& other) {
      return other.field == violation.field;
    });
    if (violation.rule == "missing_option" && (elsewhere || reported)) continue;
    found.push_back(std::move(violation));
  }
  job.complete = !values.at_fault() && std::none_of(found.begin(), found.end(), Garbles);
  violations.insert(violations.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
  return job;
}

plan::RuleContext ContextOf(const MegatronJob& job, const Surroundings& surroundings) {
  plan::RuleContext context;
  context.model = &job.model;
  context.training = &job.training;
  context.parallel = &job.parallel;
  context.facts = &job.facts;
  context.world_size = surroundings.world_size;
  context.environment = surroundings.environment;
  context.architecture = surroundings.architecture;
  context.fuses_attention = surroundings.fuses_attention;
  return context;
}

Violations CheckMegatronJob(const MegatronJob& job, const Surroundings& surroundings,
                            uint32_t scopes) {
  if (!job.complete) return {};
  return plan::CheckAll(ContextOf(job, surroundings), scopes);
}

plan::Plan PlanFromJob(const MegatronJob& job, int64_t world_size) {
  const plan::RuleContext context = ContextOf(job, {.world_size = world_size});
  plan::Plan plan;
  plan::Mesh& mesh = plan.meshes.emplace_back();
  mesh.degrees = {.tp = job.parallel.tp,
                  .cp = job.parallel.cp,
                  .dp = context.dp(),
                  .ep = job.parallel.ep,
                  .etp = job.parallel.expert_tp()};
  for (std::vector<plan::Chunk>& chunks : plan::SplitIntoStages(job.parallel, job.model)) {
    mesh.stages.push_back({.chunks = std::move(chunks), .recompute = job.training.recompute});
  }
  plan.micro_batch = job.training.micro_batch;
  plan.micro_batches = context.micro_batches();
  // Rounded down where the job allows it.
  plan.global_batch = plan.micro_batches * plan.micro_batch * mesh.degrees.dp;
  plan.interleaving_group =
      plan.virtual_stages() > 1 ? job.parallel.interleaving_group.value_or(job.parallel.pp) : 0;
  plan.sequence_parallel = context.sequence_parallel();
  plan.rank_order = job.parallel.data_outermost ? plan::RankOrder::kDataOutermost
                                                : plan::RankOrder::kPipelineOutermost;
  return plan;
}

}  // namespace hapmoe::engine
