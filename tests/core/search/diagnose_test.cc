// Every suggestion is put to the search: with it something fits, with any less nothing does.
#include "core/search/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/search/search.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Suggestion::Kind;

constexpr uint32_t kInstances = hapmoe::testing::Instances(400, 40);

Outcome Solve(const SearchRequest& request) {
  InlineExecutor executor;
  Interrupter interrupter;
  auto outcome = Search(request, executor, interrupter, [](const Progress&) {});
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return *std::move(outcome);
}

bool Feasible(const SearchRequest& request) { return Solve(request).best.has_value(); }

std::vector<int64_t>& DegreeList(Constraints& constraints, const std::string& name) {
  if (name == "tp") return constraints.tp;
  if (name == "cp") return constraints.cp;
  if (name == "ep") return constraints.ep;
  if (name == "etp") return constraints.etp;
  if (name == "dp") return constraints.dp;
  if (name == "vp") return constraints.virtual_stages;
  EXPECT_EQ(name, "pp");
  return constraints.pp;
}

// The request after a change of this kind and subject, but of this size.
SearchRequest Changed(const SearchRequest& request, const Suggestion& suggestion, int64_t amount) {
  SearchRequest changed = request;
  model::Optimizer& optimizer = changed.problem.training.optimizer;
  switch (suggestion.kind) {
    case Kind::kAllowIdle:
      changed.constraints.allow_idle_accelerators = true;
      break;
    case Kind::kChooseRecompute:
      changed.constraints.keep_recompute = false;
      break;
    case Kind::kMicroBatch:
      changed.constraints.micro_batch.push_back(amount);
      break;
    case Kind::kDegree:
      if (amount == 0) {
        DegreeList(changed.constraints, suggestion.subject).clear();
      } else {
        DegreeList(changed.constraints, suggestion.subject).push_back(amount);
      }
      break;
    case Kind::kShardOptimizer:
      optimizer.distributed = true;
      break;
    case Kind::kOffloadOptimizer:
      optimizer.distributed = true;
      optimizer.precision_aware = true;
      optimizer.offload_ratio = static_cast<double>(amount) / 100;
      break;
    case Kind::kAddNodes:
      for (cluster::Pool& pool : changed.problem.cluster.pools) {
        if (pool.name == suggestion.subject) pool.nodes += amount;
      }
      break;
  }
  return changed;
}

// Sizes that would have been a smaller change.
std::vector<int64_t> Smaller(const SearchRequest& request, const Suggestion& suggestion) {
  std::vector<int64_t> sizes;
  switch (suggestion.kind) {
    case Kind::kAllowIdle:
    case Kind::kChooseRecompute:
    case Kind::kShardOptimizer:
      break;
    case Kind::kMicroBatch:
      for (int64_t size = suggestion.amount + 1; size < request.problem.training.micro_batch;
           ++size) {
        sizes.push_back(size);
      }
      break;
    case Kind::kDegree: {
      // One value is allowed: what lies between.
      Constraints constraints = request.constraints;
      const int64_t allowed = DegreeList(constraints, suggestion.subject).front();
      const auto [low, high] = std::minmax(allowed, suggestion.amount);
      for (int64_t value = low + 1; value < high; ++value) sizes.push_back(value);
      break;
    }
    case Kind::kOffloadOptimizer:
    case Kind::kAddNodes:
      if (suggestion.amount > 1) sizes.push_back(suggestion.amount - 1);
      break;
  }
  return sizes;
}

SearchRequest ChangedBy(SearchRequest request, const std::vector<Suggestion>& parts) {
  for (const Suggestion& part : parts) request = Changed(request, part, part.amount);
  return request;
}

// All parts are needed, and so are all nodes and all hundredths.
void ExpectEnoughAndNoMore(const SearchRequest& request, const std::vector<Suggestion>& parts) {
  EXPECT_TRUE(Feasible(ChangedBy(request, parts)));
  for (size_t i = 0; i < parts.size(); ++i) {
    SCOPED_TRACE(parts[i].sentence);
    std::vector<Suggestion> fewer = parts;
    if (parts[i].kind == Kind::kAddNodes || parts[i].kind == Kind::kOffloadOptimizer) {
      --fewer[i].amount;
    } else {
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    }
    EXPECT_FALSE(Feasible(ChangedBy(request, fewer)));
  }
}

SearchRequest RandomRequest(std::mt19937& random) {
  SearchRequest request;
  cost::Problem& problem = request.problem;
  const bool moe = random() % 2 == 0;
  problem.model = SmallModel(3 + static_cast<int64_t>(random() % 5), 512, moe ? 4 : 0);
  problem.model.seq_length = 1024;
  problem.training = SmallTraining(16, 1 << (random() % 3));
  problem.training.optimizer.distributed = random() % 4 == 0;
  problem.memory_headroom_ratio = 0;
  std::uniform_real_distribution<double> memory(0.45e9, 0.75e9);
  const size_t pools = 1 + random() % 2;
  for (size_t i = 0; i < pools; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    problem.cluster.pools.push_back(SmallPool(name, 1 + static_cast<int64_t>(random() % 2),
                                              1 + static_cast<int64_t>(random() % 2)));
    problem.profiles.push_back(ScaledProfile(name, 1, memory(random)));
  }
  request.constraints.allow_idle_accelerators = random() % 2 == 0;
  request.constraints.keep_recompute = random() % 2 == 0;
  Constraints& constraints = request.constraints;
  switch (random() % 8) {
    case 0:
      constraints.tp = {1};
      break;
    case 1:
      constraints.cp = {1};
      break;
    case 2:
      constraints.ep = {1};
      break;
    case 3:
      constraints.etp = {2};
      break;
    case 4:
      constraints.dp = {2};
      break;
    case 5:
      constraints.pp = {1};
      break;
    default:
      break;
  }
  request.facts.grouped_query_attention = false;
  request.facts.router_pre_softmax = true;
  return request;
}

TEST(DiagnoseTest, SuggestionsSufficeAndNothingSmallerDoes) {
  std::map<Kind, int> seen;
  int infeasible = 0;
  int together = 0;
  for (uint32_t seed = 0; seed < kInstances; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const SearchRequest request = RandomRequest(random);
    const Outcome outcome = Solve(request);
    if (outcome.best.has_value()) continue;
    ++infeasible;
    ASSERT_TRUE(outcome.infeasibility.has_value());
    const Infeasibility& why = *outcome.infeasibility;
    if (!why.suggestions.empty()) {
      EXPECT_EQ(why.suggestion, why.suggestions.front().sentence);
      EXPECT_TRUE(why.together.empty());
    } else if (!why.together.empty()) {
      ++together;
      ExpectEnoughAndNoMore(request, why.together);
    }
    if (why.binding_rule == "memory") {
      EXPECT_GT(why.bytes_short, 0);
      EXPECT_TRUE(why.stage.has_value());
    }
    // What costs least comes first.
    EXPECT_TRUE(
        std::is_sorted(why.suggestions.begin(), why.suggestions.end(),
                       [](const Suggestion& a, const Suggestion& b) { return a.kind < b.kind; }));
    for (const Suggestion& suggestion : why.suggestions) {
      SCOPED_TRACE(suggestion.sentence);
      ++seen[suggestion.kind];
      EXPECT_TRUE(Feasible(Changed(request, suggestion, suggestion.amount)));
      for (const int64_t smaller : Smaller(request, suggestion)) {
        EXPECT_FALSE(Feasible(Changed(request, suggestion, smaller))) << smaller;
      }
    }
  }
  EXPECT_GT(infeasible * 4, static_cast<int>(kInstances));
  // Enough instances show every kind.
  for (const Kind kind :
       {Kind::kAllowIdle, Kind::kChooseRecompute, Kind::kMicroBatch, Kind::kDegree,
        Kind::kShardOptimizer, Kind::kOffloadOptimizer, Kind::kAddNodes}) {
    if (kInstances >= 400) {
      EXPECT_GT(seen[kind], 0) << static_cast<int>(kind);
    }
    RecordProperty(std::to_string(static_cast<int>(kind)), seen[kind]);
  }
  EXPECT_GT(together, 0);
  RecordProperty("infeasible", infeasible);
  RecordProperty("together", together);
}

TEST(DiagnoseTest, LacksWhatMoreMemoryWouldGive) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(16);
  request.problem.memory_headroom_ratio = 0;
  request.problem.cluster.pools = {SmallPool("only", 1, 2)};
  const double memory = 0.6e9;
  request.problem.profiles = {ScaledProfile("only", 1, memory)};
  const Outcome outcome = Solve(request);
  ASSERT_TRUE(outcome.infeasibility.has_value());
  const double lacks = outcome.infeasibility->bytes_short;
  EXPECT_EQ(outcome.infeasibility->binding_rule, "memory");
  request.problem.profiles = {ScaledProfile("only", 1, memory + lacks * 1.00001)};
  EXPECT_TRUE(Feasible(request));
  request.problem.profiles = {ScaledProfile("only", 1, memory + lacks * 0.9999)};
  EXPECT_FALSE(Feasible(request));
}

std::vector<std::string> Sentences(const std::vector<Suggestion>& suggestions) {
  std::vector<std::string> sentences;
  for (const Suggestion& suggestion : suggestions) sentences.push_back(suggestion.sentence);
  return sentences;
}

TEST(DiagnoseTest, SaysWhatToType) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(16);
  request.problem.training.optimizer.distributed = false;
  request.problem.cluster.pools = {SmallPool("left", 2, 4), SmallPool("right", 1, 4)};
  request.problem.profiles = {ScaledProfile("left", 1, 0.9e9), ScaledProfile("right", 1, 0.9e9)};
  request.constraints.tp = {1};
  request.constraints.dp = {4};
  request.constraints.keep_recompute = true;
  const Outcome alone = Solve(request);
  ASSERT_TRUE(alone.infeasibility.has_value());
  EXPECT_EQ(
      alone.infeasibility->summary,
      "Nothing fits: the plan that comes closest (tp 1, cp 1, dp 4, ep 1, etp 1, 3 stages) lacks "
      "0.26 GiB on stage 1, on left in pool left, with all the recomputation that is allowed.");
  EXPECT_THAT(Sentences(alone.infeasibility->suggestions),
              ElementsAre("Shard the optimizer states (--use-distributed-optimizer)."));
  EXPECT_EQ(alone.infeasibility->suggestion, alone.infeasibility->suggestions[0].sentence);

  request.problem.training.optimizer.distributed = true;
  request.problem.profiles = {ScaledProfile("left", 1, 0.85e9), ScaledProfile("right", 1, 0.8e9)};
  const Outcome choice = Solve(request);
  ASSERT_TRUE(choice.infeasibility.has_value());
  EXPECT_THAT(
      Sentences(choice.infeasibility->suggestions),
      ElementsAre("Keep 50 % of the optimizer states in host memory (--optimizer-cpu-offload "
                  "--optimizer-offload-fraction 0.50 --use-precision-aware-optimizer).",
                  "Add 1 node to pool left.", "Add 1 node to pool right."));

  request.problem.profiles = {ScaledProfile("left", 1, 0.7e9), ScaledProfile("right", 1, 0.7e9)};
  request.problem.training.optimizer.distributed = false;
  const Outcome together = Solve(request);
  ASSERT_TRUE(together.infeasibility.has_value());
  EXPECT_THAT(together.infeasibility->suggestions, IsEmpty());
  EXPECT_THAT(
      Sentences(together.infeasibility->together),
      ElementsAre("Let accelerators idle (--allow-idle).", "Allow any dp (leave out --dp)."));
  EXPECT_EQ(together.infeasibility->suggestion,
            "Let accelerators idle (--allow-idle). Allow any dp (leave out --dp).");
}

TEST(DiagnoseTest, VirtualStagesThatNothingCanHaveAreLetGo) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(16);
  request.problem.cluster.pools = {SmallPool("only", 1, 4)};
  request.problem.profiles = {ScaledProfile("only", 1, 80e9)};
  // Virtual stages take a pipeline, and this has one stage.
  request.constraints.pp = {1};
  request.constraints.virtual_stages = {2};
  const Outcome outcome = Solve(request);
  ASSERT_TRUE(outcome.infeasibility.has_value());
  EXPECT_THAT(Sentences(outcome.infeasibility->suggestions), Contains("Allow vp 1 (--vp 2,1)."));
  for (const Suggestion& suggestion : outcome.infeasibility->suggestions) {
    EXPECT_TRUE(Feasible(Changed(request, suggestion, suggestion.amount))) << suggestion.sentence;
  }
}

TEST(DiagnoseTest, AsksOnlyForMicroBatchesThatTheBatchHolds) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(16);
  request.problem.cluster.pools = {SmallPool("only", 1, 4)};
  request.problem.profiles = {ScaledProfile("only", 1, 80e9)};
  // Counting down from there would not end.
  request.constraints.micro_batch = {int64_t{1} << 40};
  const Outcome outcome = Solve(request);
  ASSERT_TRUE(outcome.infeasibility.has_value());
  EXPECT_THAT(Sentences(outcome.infeasibility->suggestions),
              Contains(::testing::HasSubstr("a micro-batch of 16 samples")));
}

TEST(DiagnoseTest, StopsSoonWhenInterrupted) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(16);
  request.problem.cluster.pools = {SmallPool("only", 1, 1)};
  request.problem.profiles = {ScaledProfile("only", 1, 0.45e9)};
  Interrupter interrupter;
  const Space space = EnumerateSpace(request, interrupter);
  interrupter.Trip(Interrupter::Cause::kTime);
  EXPECT_TRUE(Diagnose(request, space, interrupter).suggestions.empty());
}

}  // namespace
}  // namespace hapmoe::search
