// The table of rules as a table; what each rule says is tested through arguments, in engine.
#include "core/plan/megatron_rules.h"

#include <cstdlib>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/plan/allocation_counter.h"

namespace hapmoe::plan {
namespace {

using ::testing::IsEmpty;

// 8 dense layers of 8 heads, batch 32, on 8 accelerators: every rule holds.
struct Job {
  model::TransformerSpec model;
  model::TrainingSpec training;
  ParallelSpec parallel;
  EngineFacts facts;
  int64_t world_size = 8;

  Job() {
    model.layers = 8;
    model.hidden = 512;
    model.ffn_hidden = 2048;
    model.heads = 8;
    model.query_groups = 8;
    model.head_dim = 64;
    model.seq_length = 1024;
    model.max_positions = 1024;
    model.vocab = 32000;
    model.layer_kinds.assign(8, model::LayerKind::kDense);
    training.global_batch = 32;
  }

  RuleContext Context() const {
    RuleContext context;
    context.model = &model;
    context.training = &training;
    context.parallel = &parallel;
    context.facts = &facts;
    context.world_size = world_size;
    return context;
  }
};

TEST(MegatronRules, HaveNamesSourcesAndOptions) {
  std::set<std::string> names;
  for (const Rule& rule : MegatronRules()) {
    const std::string name(rule.name), source(rule.source);
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z0-9]+(_[a-z0-9]+)+"))) << name;
    EXPECT_TRUE(std::regex_match(source, std::regex("[a-z0-9_/]+\\.py:[0-9]+"))) << name;
    EXPECT_FALSE(rule.field.empty()) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(names.size(), 100u);
}

TEST(CheckAll, FindsNoFaultInASoundJob) { EXPECT_THAT(CheckAll(Job().Context()), IsEmpty()); }

TEST(CheckAll, TellsEveryFault) {
  Job job;
  job.parallel.tp = 16;           // 8 % 16, and 8 heads on 16 ranks.
  job.model.max_positions = 512;  // Below 1024.
  std::vector<std::string> rules;
  for (const Violation& violation : CheckAll(job.Context())) rules.push_back(violation.rule);
  EXPECT_THAT(rules, ::testing::ElementsAre("world_divisible_by_tp_pp_cp", "heads_divisible_by_tp",
                                            "sequence_within_positions"));
}

TEST(CheckAll, KeepsToTheScopesAsked) {
  Job job;
  job.parallel.tp = 16;
  job.model.max_positions = 512;
  const Violations found = CheckAll(job.Context(), kJobScope);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "sequence_within_positions");
  EXPECT_EQ(found[0].field, "--max-position-embeddings");
}

TEST(RuleContext, CountsDataParallelRanksAndMicroBatches) {
  Job job;
  job.parallel.tp = 2;
  job.parallel.cp = 2;
  job.parallel.ep = 4;
  job.parallel.etp = 1;
  EXPECT_EQ(job.Context().dp(), 2);              // 8 / (2 x 2).
  EXPECT_EQ(job.Context().expert_dp(), 2);       // 8 / (1 x 4).
  EXPECT_EQ(job.Context().micro_batches(), 16);  // 32 / (1 x 2).
  job.facts.global_batch_given = false;
  EXPECT_EQ(job.Context().global_batch(), 2);
  job.world_size = 9;
  EXPECT_EQ(job.Context().dp(), 0);
  EXPECT_EQ(job.Context().micro_batches(), 0);
}

TEST(FirstBroken, AgreesWithCheckAllOnDegrees) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    Job job;
    const auto pick = [&random] { return static_cast<int64_t>(1 + random() % 8); };
    job.parallel.tp = pick();
    job.parallel.pp = pick();
    job.parallel.cp = 1 + static_cast<int64_t>(random() % 2);
    job.parallel.ep = random() % 4 == 0 ? pick() : 1;
    job.world_size = pick() * pick() * pick();
    job.training.micro_batch = pick();
    job.training.sequence_parallel = random() % 2 == 0;
    if (random() % 2 == 0) job.model.moe.emplace().experts = 8;
    const RuleContext context = job.Context();
    const Rule* broken = FirstBroken(context, kDegreesScope);
    const Violations all = CheckAll(context, kDegreesScope);
    ASSERT_EQ(broken == nullptr, all.empty()) << "seed 7, case " << i;
    if (broken == nullptr) continue;
    EXPECT_EQ(all.front().rule, std::string(broken->name));
  }
}

TEST(FirstBroken, AllocatesNothing) {
  Job job;
  const RuleContext context = job.Context();
  Job broken_job;
  broken_job.parallel.tp = 3;
  const RuleContext broken = broken_job.Context();
  FirstBroken(context, kDegreesScope);  // Makes the table.
  const int64_t before = Allocations();
  for (int i = 0; i < 1000; ++i) {
    if (FirstBroken(context, kDegreesScope) != nullptr) std::abort();
    if (FirstBroken(broken, kDegreesScope) == nullptr) std::abort();
  }
  EXPECT_EQ(Allocations(), before);
}

// Rules are asked about candidates and hostile jobs alike: none may divide by zero or overflow.
TEST(Rules, AreTotal) {
  std::mt19937 random(11);
  const int64_t values[] = {-1, 0, 1, 2, 3, 8, 1 << 20};
  const auto pick = [&] { return values[random() % 7]; };
  for (int i = 0; i < 5000; ++i) {
    Job job;
    job.parallel.tp = pick();
    job.parallel.pp = pick();
    job.parallel.cp = pick();
    job.parallel.ep = pick();
    if (random() % 2 == 0) job.parallel.etp = pick();
    if (random() % 2 == 0) job.parallel.first_stage_layers = pick();
    if (random() % 2 == 0) job.parallel.last_stage_layers = pick();
    if (random() % 4 == 0) job.parallel.layers_per_virtual_stage = pick();
    if (random() % 4 == 0) job.parallel.virtual_stages_per_rank = pick();
    if (random() % 4 == 0) job.parallel.interleaving_group = pick();
    if (random() % 4 == 0) job.parallel.layout = random() % 2 == 0 ? "" : "Et*8|mL";
    job.world_size = pick();
    job.training.micro_batch = pick();
    job.training.global_batch = pick();
    job.training.optimizer.instances = pick();
    job.model.heads = pick();
    job.model.query_groups = pick();
    job.model.seq_length = pick();
    job.model.layers = pick();
    job.model.mtp_layers = pick();
    job.training.sequence_parallel = random() % 2 == 0;
    job.facts.router_groups = pick();
    job.facts.router_group_topk = pick();
    job.facts.eval_micro_batch = pick();
    job.facts.hierarchical_cp.assign(random() % 4, pick());
    if (random() % 2 == 0) job.model.moe.emplace().experts = pick();
    for (const Violation& violation : CheckAll(job.Context())) {
      EXPECT_FALSE(violation.message.empty()) << violation.rule;
    }
  }
}

}  // namespace
}  // namespace hapmoe::plan
