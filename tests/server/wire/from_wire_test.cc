#include "server/wire/from_wire.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> Rules(const Violations& violations) {
  std::vector<std::string> rules;
  for (const Violation& violation : violations) rules.push_back(violation.rule);
  return rules;
}

std::vector<std::string> Fields(const Violations& violations) {
  std::vector<std::string> fields;
  for (const Violation& violation : violations) fields.push_back(violation.field);
  return fields;
}

TEST(RequestId, HasAtMost128PrintableCharacters) {
  Violations violations;
  CheckRequestId("", violations);
  CheckRequestId(std::string(128, 'a'), violations);
  EXPECT_THAT(violations, IsEmpty());
  CheckRequestId(std::string(129, 'a'), violations);
  CheckRequestId("tab\t", violations);
  EXPECT_THAT(Rules(violations), ElementsAre("request_id_valid", "request_id_valid"));
}

TEST(ClusterFromWire, FillsInWhatIsLeftOut) {
  v1::Cluster wire = ClusterOf("H800", 4);
  v1::Pool* named = wire.add_pools();
  named->set_name("named");
  named->set_accelerator("A100");
  named->add_hosts("a");
  named->add_hosts("b");
  named->set_accelerators_per_node(4);
  named->mutable_network()->set_bytes_per_second(25e9);
  v1::Link* link = wire.add_links();
  link->add_between("named");
  link->add_between("pool");
  Violations violations;
  const cluster::Cluster cluster = ClusterFromWire(wire, violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_EQ(cluster.pools[0].accelerators_per_node, 8);
  EXPECT_EQ(cluster.pools[0].network.bytes_per_second, std::nullopt);
  EXPECT_EQ(cluster.pools[1].nodes, 2);
  EXPECT_EQ(cluster.pools[1].network.bytes_per_second, 25e9);
  EXPECT_EQ(cluster.pools[1].network.latency_seconds, std::nullopt);
  EXPECT_EQ(cluster.links[0].first_pool, 1);
  EXPECT_EQ(cluster.links[0].second_pool, 0);
  EXPECT_EQ(cluster.accelerators(), 40);  // 4 x 8 + 2 x 4
}

TEST(ClusterFromWire, UnknownPoolOfALinkIsToldOnceByName) {
  v1::Cluster wire = ClusterOf("H800", 4);
  v1::Link* link = wire.add_links();
  link->add_between("pool");
  link->add_between("nowhere");
  wire.add_links()->add_between("pool");
  Violations violations;
  ClusterFromWire(wire, violations);
  EXPECT_THAT(Fields(violations),
              ElementsAre("cluster.links[0].between[1]", "cluster.links[1].between"));
  EXPECT_EQ(violations[0].message, "No pool is named \"nowhere\".");
}

TEST(ClusterFromWire, RefusesTooManyLinksBeforeReadingThem) {
  v1::Cluster wire = ClusterOf("H800", 4);
  for (int i = 0; i <= kMaxLinks; ++i) wire.add_links();
  Violations violations;
  EXPECT_THAT(ClusterFromWire(wire, violations).pools, IsEmpty());
  EXPECT_THAT(Rules(violations), ElementsAre("cluster_links_in_range"));
}

TEST(ClusterFromWire, LargestNumbersOfTheWireDoNotOverflow) {
  v1::Cluster wire = ClusterOf("H800", 0xffffffffu);
  wire.mutable_pools(0)->set_accelerators_per_node(0xffffffffu);
  Violations violations;
  ClusterFromWire(wire, violations);
  EXPECT_THAT(Rules(violations),
              ElementsAre("pool_nodes_in_range", "pool_accelerators_per_node_in_range"));
}

TEST(ConstraintsFromWire, DefaultsAllowEverything) {
  Violations violations;
  const PlanLimits limits = ConstraintsFromWire(v1::Constraints(), violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_EQ(limits.engine, "megatron-lm");
  EXPECT_EQ(limits.memory_headroom_ratio, 0.05);
  EXPECT_EQ(limits.time_budget, std::nullopt);
  EXPECT_THAT(limits.constraints.tp, IsEmpty());
  EXPECT_FALSE(limits.constraints.allow_idle_accelerators);
}

TEST(ConstraintsFromWire, TellsEveryFault) {
  v1::Constraints wire;
  wire.add_tp(2);
  wire.add_tp(0);
  for (int i = 0; i <= kMaxDegreeChoices; ++i) wire.add_pp(1);
  wire.set_memory_headroom_ratio(1);
  wire.mutable_time_budget()->set_seconds(-1);
  Violations violations;
  ConstraintsFromWire(wire, violations);
  EXPECT_THAT(Fields(violations),
              ElementsAre("constraints.tp[1]", "constraints.pp",
                          "constraints.memory_headroom_ratio", "constraints.time_budget"));
}

TEST(ConstraintsFromWire, VirtualStagesAndPruningsAreKept) {
  v1::Constraints wire;
  wire.add_virtual_stages(1);
  wire.add_virtual_stages(8);
  wire.mutable_prunings()->set_load_balance_ratio(0);
  wire.mutable_prunings()->set_cross_type_ratio(0.25);
  Violations violations;
  const search::Constraints constraints = ConstraintsFromWire(wire, violations).constraints;
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_THAT(constraints.virtual_stages, ElementsAre(1, 8));
  EXPECT_EQ(constraints.prunings.load_balance_ratio, 0);
  EXPECT_EQ(constraints.prunings.cross_type_ratio, 0.25);
  wire.mutable_prunings()->set_load_balance_ratio(10);
  EXPECT_EQ(ConstraintsFromWire(wire, violations).constraints.prunings.load_balance_ratio, 10);
  EXPECT_THAT(violations, IsEmpty());
}

TEST(ConstraintsFromWire, NothingIsPrunedWhereNothingIsSaid) {
  v1::Constraints wire;
  wire.mutable_prunings();
  Violations violations;
  const search::Constraints constraints = ConstraintsFromWire(wire, violations).constraints;
  EXPECT_THAT(constraints.virtual_stages, IsEmpty());
  EXPECT_EQ(constraints.prunings.load_balance_ratio, std::nullopt);
  EXPECT_EQ(constraints.prunings.cross_type_ratio, std::nullopt);
}

TEST(ConstraintsFromWire, FaultsOfVirtualStagesAreNamed) {
  v1::Constraints wire;
  for (const int32_t count : {2, 0, 9}) wire.add_virtual_stages(count);
  Violations violations;
  ConstraintsFromWire(wire, violations);
  EXPECT_THAT(Fields(violations),
              ElementsAre("constraints.virtual_stages[1]", "constraints.virtual_stages[2]"));
  EXPECT_THAT(Rules(violations), ElementsAre("degree_in_range", "virtual_stages_in_range"));
}

TEST(ConstraintsFromWire, DegreesBeyondAllReasonAreFaults) {
  v1::Constraints wire;
  for (const int32_t size : {1, 1 << 20, (1 << 20) + 1, 2147483647})
    wire.add_micro_batch_size(size);
  Violations violations;
  ConstraintsFromWire(wire, violations);
  EXPECT_THAT(Fields(violations),
              ElementsAre("constraints.micro_batch_size[2]", "constraints.micro_batch_size[3]"));
}

TEST(ConstraintsFromWire, PruningsOutOfRangeAreFaults) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double ratio : {-0.001, 10.001, infinity, nan}) {
    v1::Constraints wire;
    wire.mutable_prunings()->set_load_balance_ratio(ratio);
    Violations violations;
    const search::Prunings prunings = ConstraintsFromWire(wire, violations).constraints.prunings;
    EXPECT_THAT(Fields(violations), ElementsAre("constraints.prunings.load_balance_ratio"))
        << ratio;
    EXPECT_EQ(prunings.load_balance_ratio, std::nullopt) << ratio;
  }
  for (const double ratio : {-1.0, 0.0, infinity, nan}) {
    v1::Constraints wire;
    wire.mutable_prunings()->set_cross_type_ratio(ratio);
    Violations violations;
    const search::Prunings prunings = ConstraintsFromWire(wire, violations).constraints.prunings;
    EXPECT_THAT(Fields(violations), ElementsAre("constraints.prunings.cross_type_ratio")) << ratio;
    EXPECT_EQ(prunings.cross_type_ratio, std::nullopt) << ratio;
  }
}

TEST(ConstraintsFromWire, TimeBudgetMayBeShorterThanASecondButNotZero) {
  v1::Constraints wire;
  wire.mutable_time_budget()->set_nanos(1);
  Violations violations;
  EXPECT_EQ(ConstraintsFromWire(wire, violations).time_budget, std::chrono::nanoseconds(1));
  EXPECT_THAT(violations, IsEmpty());
  wire.mutable_time_budget()->set_nanos(0);
  ConstraintsFromWire(wire, violations);
  EXPECT_THAT(Rules(violations), ElementsAre("time_budget_positive"));
}

TEST(JobFromWire, NeedsExactlyOneForm) {
  Violations violations;
  JobFromWire(v1::Job(), violations);
  v1::Job both;
  both.add_megatron_args("--bf16");
  both.mutable_structured();
  JobFromWire(both, violations);
  EXPECT_THAT(Rules(violations), ElementsAre("job_given_once", "job_given_once"));
}

TEST(JobFromWire, ArgumentsAreTakenAsTheyAre) {
  v1::Job wire;
  for (const char* argument : {"--a", "b c", "", "d\ne", "\xc3\xa9"}) {
    wire.add_megatron_args(argument);
  }
  Violations violations;
  const JobArguments job = JobFromWire(wire, violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_THAT(job.megatron_args, ElementsAre("--a", "b c", "", "d\ne", "\xc3\xa9"));
  EXPECT_EQ(job.entry, "pretrain_gpt.py");
}

TEST(JobFromWire, RefusesWhatNoProcessCanBeGiven) {
  v1::Job wire;
  wire.add_megatron_args(std::string("a\0b", 3));
  wire.add_megatron_args(std::string(kMaxArgumentBytes + 1, 'a'));
  wire.set_entry("-c");
  Violations violations;
  EXPECT_THAT(JobFromWire(wire, violations).megatron_args, IsEmpty());
  EXPECT_THAT(Fields(violations),
              ElementsAre("job.megatron_args[0]", "job.megatron_args[1]", "job.entry"));
}

TEST(JobFromWire, RefusesTooMuch) {
  v1::Job many;
  for (int i = 0; i <= kMaxArguments; ++i) many.add_megatron_args("x");
  v1::Job large;
  for (int i = 0; i < 10; ++i) large.add_megatron_args(std::string(kMaxArgumentBytes, 'x'));
  Violations violations;
  JobFromWire(many, violations);
  JobFromWire(large, violations);
  EXPECT_THAT(Rules(violations), ElementsAre("arguments_in_range", "arguments_in_range"));
}

// DeepSeek-like: everything that a structured job can say.
v1::Job StructuredJob() {
  v1::Job wire;
  v1::TransformerModel* model = wire.mutable_structured()->mutable_model();
  model->set_num_layers(8);
  model->set_hidden_size(1024);
  model->set_ffn_hidden_size(4096);
  model->set_num_attention_heads(16);
  model->set_seq_length(2048);
  model->set_vocab_size(32000);
  model->set_swiglu(true);
  model->set_rms_norm(true);
  model->set_disable_bias_linear(true);
  model->set_untie_embeddings_and_output_weights(true);
  model->set_rotary_position_embedding(true);
  model->set_mtp_num_layers(1);
  model->mutable_moe()->set_num_experts(8);
  model->mutable_moe()->set_router_topk(2);
  model->mutable_moe()->set_first_dense_layers(3);
  model->mutable_moe()->set_token_dispatcher("alltoall");
  model->mutable_mla()->set_kv_lora_rank(512);
  model->mutable_mla()->set_qk_head_dim(128);
  model->mutable_mla()->set_qk_pos_emb_head_dim(64);
  model->mutable_mla()->set_v_head_dim(128);
  v1::Training* training = wire.mutable_structured()->mutable_training();
  training->set_global_batch_size(64);
  training->set_precision("bf16");
  training->set_distributed_optimizer(true);
  wire.mutable_structured()->add_extra_megatron_args("--mock-data");
  return wire;
}

TEST(JobFromWire, StructuredJobBecomesTheEquivalentArguments) {
  Violations violations;
  const JobArguments job = JobFromWire(StructuredJob(), violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_TRUE(job.any_micro_batch);
  EXPECT_THAT(
      job.megatron_args,
      ElementsAre("--num-layers", "8", "--hidden-size", "1024", "--ffn-hidden-size", "4096",
                  "--num-attention-heads", "16", "--seq-length", "2048",
                  "--max-position-embeddings", "2048", "--swiglu", "--normalization", "RMSNorm",
                  "--disable-bias-linear", "--untie-embeddings-and-output-weights",
                  "--position-embedding-type", "rope", "--mtp-num-layers", "1", "--num-experts",
                  "8", "--moe-router-topk", "2", "--moe-layer-freq", "([0]*3+[1]*5)",
                  "--moe-token-dispatcher-type", "alltoall", "--multi-latent-attention",
                  "--kv-lora-rank", "512", "--qk-head-dim", "128", "--qk-pos-emb-head-dim", "64",
                  "--v-head-dim", "128", "--global-batch-size", "64", "--micro-batch-size", "1",
                  "--bf16", "--use-distributed-optimizer", "--tokenizer-type", "NullTokenizer",
                  "--vocab-size", "32000", "--mock-data"));
}

TEST(JobFromWire, StructuredJobKeepsTheTokenizerThatWasChosen) {
  v1::Job wire = StructuredJob();
  wire.mutable_structured()->add_extra_megatron_args("--tokenizer-type=HuggingFaceTokenizer");
  Violations violations;
  EXPECT_THAT(JobFromWire(wire, violations).megatron_args, Not(Contains("NullTokenizer")));
}

TEST(JobFromWire, StructuredJobTellsEveryFault) {
  v1::Job wire = StructuredJob();
  wire.mutable_structured()->mutable_model()->set_num_layers(0);
  wire.mutable_structured()->mutable_model()->set_kv_channels(-1);
  wire.mutable_structured()->mutable_model()->mutable_moe()->set_token_dispatcher("pigeon");
  wire.mutable_structured()->mutable_training()->set_precision("bf17");
  Violations violations;
  JobFromWire(wire, violations);
  EXPECT_THAT(Fields(violations),
              IsSupersetOf({"job.structured.model.num_layers", "job.structured.model.kv_channels",
                            "job.structured.model.moe.first_dense_layers",  // 3 of 0 layers.
                            "job.structured.model.moe.token_dispatcher",
                            "job.structured.training.precision"}));
}

TEST(ProfileFromWire, FillsInThePairRateAndTheFit) {
  v1::AcceleratorProfile wire = RoundProfile("Unit-1");
  v1::OperationTable* table = wire.add_tables();
  table->set_kind(v1::OPERATION_KIND_GEMM);
  table->set_precision(v1::PRECISION_BF16);
  table->add_m(128);
  table->add_n(128);
  table->add_k(128);
  table->add_groups(1);
  table->add_microseconds(1);
  table->set_stated_error(10);
  Violations violations;
  const profile::AcceleratorProfile profile = ProfileFromWire(wire, violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_EQ(profile.scale_up_pair_bytes_per_second, 200e9);
  EXPECT_EQ(profile.bf16_flops_per_second, 1e15);
  EXPECT_EQ(profile.fp8_flops_per_second, std::nullopt);
  ASSERT_EQ(profile.tables.size(), 1u);
  EXPECT_EQ(profile.tables[0].fit().peak_ratio, profile.matrix_ratio);
  EXPECT_EQ(profile.tables[0].fit().traffic_ratio, profile.memory_ratio);
  EXPECT_EQ(profile.tables[0].samples().seconds[0], 1e-6);
}

TEST(ProfileFromWire, EmptyProfileTellsWhatIsMissing) {
  Violations violations;
  ProfileFromWire(v1::AcceleratorProfile(), violations);
  EXPECT_THAT(
      Fields(violations),
      IsSupersetOf({"profile.accelerator", "profile.vendor", "profile.compute",
                    "profile.memory.capacity_bytes", "profile.memory.bytes_per_second",
                    "profile.scale_up.domain_accelerators", "profile.network.bytes_per_second",
                    "profile.efficiency.matrix_ratio", "profile.efficiency.network_ratio"}));
}

TEST(ProfileFromWire, UnknownKindsAndFractionsOfAcceleratorsAreFaults) {
  v1::AcceleratorProfile wire = RoundProfile("Unit-1");
  wire.mutable_scale_up()->mutable_domain_accelerators()->set_value(7.5);
  wire.mutable_scale_up()->mutable_island_accelerators()->set_value(2.5);
  wire.add_tables()->set_stated_error(1);
  wire.add_tables()->add_microseconds(1);
  Violations violations;
  ProfileFromWire(wire, violations);
  EXPECT_THAT(Rules(violations), IsSupersetOf({"whole_number", "whole_number", "table_kind_given",
                                               "table_precision_given", "table_columns_equal"}));
  EXPECT_EQ(violations.front().field, "profile.scale_up.domain_accelerators");
  EXPECT_EQ(violations.front().message, "Must be a whole number, not 7.5.");
}

TEST(RouterStatisticsFromWire, KeepsTheCountsOfEachLayer) {
  model::TransformerSpec spec;
  spec.moe.emplace().experts = 2;
  spec.layer_kinds = {model::LayerKind::kDense, model::LayerKind::kMoe};
  v1::Job wire;
  Violations violations;
  EXPECT_EQ(RouterStatisticsFromWire(wire, spec, violations), nullptr);
  v1::RouterStatistics::Layer* layer = wire.mutable_router_statistics()->add_layers();
  layer->add_expert_tokens(3);
  layer->add_expert_tokens(5);
  const auto statistics = RouterStatisticsFromWire(wire, spec, violations);
  EXPECT_THAT(violations, IsEmpty());
  ASSERT_NE(statistics, nullptr);
  EXPECT_THAT(statistics->layers, ElementsAre(ElementsAre(3, 5)));
}

TEST(ImbalanceQuantileFromWire, TakesTheDefaultOrWhatIsInRange) {
  v1::Job wire;
  Violations violations;
  EXPECT_EQ(ImbalanceQuantileFromWire(wire, violations), model::kDefaultImbalanceQuantile);
  wire.set_imbalance_quantile(0);
  EXPECT_EQ(ImbalanceQuantileFromWire(wire, violations), 0);
  EXPECT_THAT(violations, IsEmpty());
  for (const double quantile : {-0.1, 1.0, std::nan("")}) {
    wire.set_imbalance_quantile(quantile);
    ImbalanceQuantileFromWire(wire, violations);
  }
  EXPECT_THAT(Rules(violations),
              ElementsAre("imbalance_quantile_in_range", "imbalance_quantile_in_range",
                          "imbalance_quantile_in_range"));
}

TEST(RouterStatisticsFromWire, FaultsAreNamed) {
  model::TransformerSpec spec;
  spec.layer_kinds = {model::LayerKind::kMoe};
  v1::Job wire;
  v1::RouterStatistics::Layer* layer = wire.mutable_router_statistics()->add_layers();
  layer->add_expert_tokens(-1);
  Violations violations;
  EXPECT_EQ(RouterStatisticsFromWire(wire, spec, violations), nullptr);  // No experts.
  spec.moe.emplace().experts = 2;
  EXPECT_EQ(RouterStatisticsFromWire(wire, spec, violations), nullptr);
  wire.mutable_router_statistics()->add_layers();  // One layer too many.
  EXPECT_EQ(RouterStatisticsFromWire(wire, spec, violations), nullptr);
  EXPECT_THAT(Rules(violations),
              ElementsAre("router_statistics_need_experts", "router_statistics_experts",
                          "router_statistics_not_negative", "router_statistics_layers"));
}

}  // namespace
}  // namespace hapmoe::server
