#include "core/search/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/cost/schedule.h"

namespace hapmoe::search {
namespace {

struct Pipeline {
  std::vector<StageSeconds> stages;
  int64_t micro_batches = 1;
};

Pipeline RandomPipeline(std::mt19937& random) {
  std::uniform_real_distribution<double> seconds(0.2, 2);
  Pipeline pipeline;
  const int64_t count = 1 + static_cast<int64_t>(random() % 8);
  for (int64_t i = 0; i < count; ++i) {
    pipeline.stages.push_back({seconds(random), seconds(random), 0, 0});
  }
  pipeline.micro_batches = 1 + static_cast<int64_t>(random() % 24);
  return pipeline;
}

double Bound(const Pipeline& pipeline) {
  SuffixBound suffix;
  const int64_t count = static_cast<int64_t>(pipeline.stages.size());
  for (int64_t i = count - 1; i >= 0; --i) {
    suffix = Extend(suffix, pipeline.stages[static_cast<size_t>(i)], pipeline.micro_batches,
                    std::min(count - i, pipeline.micro_batches));
  }
  return suffix.passes;
}

double Simulated(const Pipeline& pipeline) {
  std::vector<cost::StageTimes> stages;
  for (const StageSeconds& stage : pipeline.stages) {
    stages.push_back({.chunks = {{stage.forward, stage.backward}}, .send_seconds = 0});
  }
  double finish = 0;
  for (const auto& timeline :
       cost::SimulateSchedule(stages, {.micro_batches = pipeline.micro_batches})) {
    finish = std::max(finish, timeline.finish_seconds);
  }
  return finish;
}

TEST(BoundTest, NeverExceedsTheSimulation) {
  std::mt19937 random(1);
  double slack = 0;
  constexpr int kTrials = 5000;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const Pipeline pipeline = RandomPipeline(random);
    const double bound = Bound(pipeline);
    const double simulated = Simulated(pipeline);
    ASSERT_LE(bound, simulated * (1 + 1e-12));
    slack += 1 - bound / simulated;
  }
  // Tight on average, else it could not close a search.
  EXPECT_LT(slack / kTrials, 0.02);
}

// Transfers occupy both sides, and gradients are synchronised once a stage's last backward pass has
// ended, whatever it still sends.
TEST(BoundTest, NeverExceedsTheSimulationWithTransfersAndGradients) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.2, 2);
  double slack = 0;
  constexpr int kTrials = 5000;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const Pipeline pipeline = RandomPipeline(random);
    const size_t count = pipeline.stages.size();
    std::vector<cost::StageTimes> times;
    std::vector<double> syncs;
    for (const StageSeconds& stage : pipeline.stages) {
      times.push_back(
          {.chunks = {{stage.forward, stage.backward}}, .send_seconds = seconds(random)});
      syncs.push_back(4 * seconds(random));
    }
    SuffixBound suffix;
    for (size_t i = count; i-- > 0;) {
      StageSeconds stage = pipeline.stages[i];
      if (i + 1 < count) stage.forward += times[i].send_seconds;
      if (i > 0) stage.backward += stage.last_send = times[i - 1].send_seconds;
      stage.sync = syncs[i];
      suffix = Extend(suffix, stage, pipeline.micro_batches,
                      std::min(static_cast<int64_t>(count - i), pipeline.micro_batches));
    }
    const auto timelines = cost::SimulateSchedule(times, {.micro_batches = pipeline.micro_batches});
    double ready = 0;
    for (size_t i = 0; i < count; ++i) {
      ready = std::max(ready, timelines[i].finish_seconds + syncs[i]);
    }
    ASSERT_LE(suffix.ready, ready * (1 + 1e-12));
    slack += 1 - suffix.ready / ready;
  }
  EXPECT_LT(slack / kTrials, 0.03);
}

TEST(BoundTest, IsExactForOneAndTwoStages) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> seconds(0.2, 2);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    Pipeline pipeline;
    for (size_t i = 0; i <= static_cast<size_t>(trial % 2); ++i) {
      pipeline.stages.push_back({seconds(random), seconds(random), 0, 0});
    }
    // With two stages the first has both of its round trips apart only from two micro-batches on.
    pipeline.micro_batches = 2 + static_cast<int64_t>(random() % 16);
    const double simulated = Simulated(pipeline);
    EXPECT_LE(Bound(pipeline), simulated * (1 + 1e-12));
    if (pipeline.stages.size() == 1) {
      EXPECT_NEAR(Bound(pipeline), simulated, 1e-9);
    }
  }
}

TEST(BoundTest, EqualStagesGiveTheClosedForm) {
  for (int64_t stages = 1; stages <= 6; ++stages) {
    for (const int64_t micro_batches : {1, 2, 5, 12}) {
      Pipeline pipeline;
      pipeline.stages.assign(static_cast<size_t>(stages), {1, 2, 0, 0});
      pipeline.micro_batches = micro_batches;
      EXPECT_DOUBLE_EQ(Bound(pipeline), 3.0 * static_cast<double>(micro_batches + stages - 1));
    }
  }
}

TEST(BoundTest, GrowsWithEverything) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> seconds(0.01, 1);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    Pipeline pipeline = RandomPipeline(random);
    const double before = Bound(pipeline);
    StageSeconds& stage = pipeline.stages[random() % pipeline.stages.size()];
    (random() % 2 == 0 ? stage.forward : stage.backward) += seconds(random);
    EXPECT_GE(Bound(pipeline), before);
  }
}

struct Interleaved {
  std::vector<cost::StageTimes> ranks;
  cost::ScheduleOptions options;
};

Interleaved RandomInterleaved(std::mt19937& random) {
  std::uniform_real_distribution<double> seconds(0.2, 2);
  Interleaved pipeline;
  const size_t count = 2 + random() % 5;
  const size_t chunks = 2 + random() % 3;
  const double send = random() % 2 == 0 ? 0 : 0.2;
  for (size_t i = 0; i < count; ++i) {
    cost::StageTimes rank;
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      rank.chunks.push_back({seconds(random), seconds(random)});
    }
    rank.send_seconds = send * seconds(random);
    pipeline.ranks.push_back(rank);
  }
  // Whole groups, or a rest of at least as many as there are ranks.
  const int64_t ranks = static_cast<int64_t>(count);
  pipeline.options.interleaving_group = ranks + static_cast<int64_t>(random() % 3);
  const int64_t rest = random() % 2 == 0 ? 0 : ranks;
  pipeline.options.micro_batches =
      pipeline.options.interleaving_group * (1 + static_cast<int64_t>(random() % 5)) + rest;
  pipeline.options.overlap_transfers = random() % 2 == 0;
  return pipeline;
}

TEST(InterleavedFinishTest, NeverExceedsTheSimulation) {
  std::mt19937 random(5);
  double slack = 0;
  constexpr int kTrials = 5000;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const Interleaved pipeline = RandomInterleaved(random);
    const std::vector<double> bounds = InterleavedFinish(pipeline.ranks, pipeline.options);
    const auto timelines = cost::SimulateSchedule(pipeline.ranks, pipeline.options);
    for (size_t i = 0; i < bounds.size(); ++i) {
      ASSERT_LE(bounds[i], timelines[i].finish_seconds * (1 + 1e-12)) << "rank " << i;
    }
    slack += 1 - bounds.front() / timelines.front().finish_seconds;
  }
  EXPECT_LT(slack / kTrials, 0.1);
  RecordProperty("mean_slack_percent", static_cast<int>(100 * slack / kTrials));
}

TEST(InterleavedFinishTest, EqualChunksGiveTheClosedForm) {
  for (const int64_t stages : {2, 4}) {
    for (const int64_t chunks : {2, 3}) {
      std::vector<cost::StageTimes> ranks(static_cast<size_t>(stages));
      for (cost::StageTimes& rank : ranks) rank.chunks.assign(static_cast<size_t>(chunks), {1, 2});
      const cost::ScheduleOptions options = {.micro_batches = 2 * stages};
      // The bubble is that of chunks, not of stages.
      EXPECT_DOUBLE_EQ(InterleavedFinish(ranks, options).front(),
                       3.0 * static_cast<double>(2 * stages * chunks + stages - 1));
    }
  }
}

// As the search has them: groups of as many micro-batches as there are ranks, equal chunks on a
// rank but for the ends.
Interleaved RandomEvenInterleaved(std::mt19937& random) {
  Interleaved pipeline = RandomInterleaved(random);
  for (cost::StageTimes& rank : pipeline.ranks) {
    std::fill(rank.chunks.begin(), rank.chunks.end(), rank.chunks.front());
  }
  std::uniform_real_distribution<double> seconds(0.2, 4);
  pipeline.ranks.front().chunks.front().forward += 0.1;
  pipeline.ranks.back().chunks.back() = {seconds(random), seconds(random)};
  const int64_t ranks = static_cast<int64_t>(pipeline.ranks.size());
  pipeline.options.interleaving_group = ranks;
  pipeline.options.micro_batches = ranks * (1 + static_cast<int64_t>(random() % 8));
  return pipeline;
}

TEST(ExtendInterleavedTest, NeverExceedsTheSimulation) {
  std::mt19937 random(6);
  std::uniform_real_distribution<double> sync(0, 8);
  double slack = 0;
  double slack_of_work = 0;
  constexpr int kTrials = 5000;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const Interleaved pipeline = RandomEvenInterleaved(random);
    SuffixBound suffix;
    SuffixBound of_work;  // As if the last chunk took no time of its own.
    const size_t count = pipeline.ranks.size();
    const bool occupies = !pipeline.options.overlap_transfers;
    const cost::ChunkTimes& last = pipeline.ranks.back().chunks.back();
    std::vector<double> syncs;
    for (size_t i = 0; i < count; ++i) syncs.push_back(sync(random));
    for (size_t i = count; i-- > 0;) {
      const cost::StageTimes& rank = pipeline.ranks[i];
      const double send = i + 1 < count ? rank.send_seconds : 0;
      const double back = i > 0 ? pipeline.ranks[i - 1].send_seconds : 0;
      const double ring = pipeline.ranks.back().send_seconds;
      InterleavedSeconds seconds;
      double forward = 0;
      double backward = 0;
      for (const cost::ChunkTimes& chunk : rank.chunks) {
        seconds.work += chunk.forward + chunk.backward;
        forward = std::max(forward, chunk.forward);
        backward = std::max(backward, chunk.backward);
      }
      seconds.slowest_pair = forward + backward;
      // Transfers between the ends are left out, as the search may.
      const double chunks = static_cast<double>(rank.chunks.size());
      if (occupies) {
        seconds.work += chunks * (send + back);
        seconds.slowest_pair += std::max(send, ring) + std::max(back, ring);
      }
      seconds.first_forward = rank.chunks.front().forward + send;
      seconds.first_backward = rank.chunks.front().backward + back;
      seconds.last_send = back;
      seconds.last_send_occupies = occupies;
      seconds.sync = syncs[i];
      const int64_t stages = static_cast<int64_t>(count);
      const int64_t behind = stages - 1 - static_cast<int64_t>(i);
      suffix = ExtendInterleaved(suffix, seconds, pipeline.options.micro_batches, stages, behind,
                                 last.forward + last.backward);
      of_work =
          ExtendInterleaved(of_work, seconds, pipeline.options.micro_batches, stages, behind, 0);
    }
    const auto timelines = cost::SimulateSchedule(pipeline.ranks, pipeline.options);
    const double finish = timelines.front().finish_seconds;
    ASSERT_LE(suffix.passes, finish * (1 + 1e-12));
    double ready = 0;
    for (size_t i = 0; i < count; ++i) {
      ready = std::max(ready, timelines[i].finish_seconds + syncs[i]);
    }
    ASSERT_LE(suffix.ready, ready * (1 + 1e-12));
    slack += 1 - suffix.passes / finish;
    slack_of_work += 1 - of_work.passes / finish;
  }
  EXPECT_LT(slack, slack_of_work);
  RecordProperty("mean_slack_permille", static_cast<int>(1000 * slack / kTrials));
  RecordProperty("mean_slack_of_work_permille", static_cast<int>(1000 * slack_of_work / kTrials));
}

TEST(SplitBoundTest, NoSplitBeatsIt) {
  // Every split of real-valued layers over random stages takes at least as long in the simulation.
  std::mt19937 random(4);
  std::uniform_real_distribution<double> seconds(0.2, 2);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const size_t count = 1 + random() % 6;
    std::vector<double> layer_seconds;
    std::vector<double> layers;
    double total = 0;
    Pipeline pipeline;
    for (size_t i = 0; i < count; ++i) {
      layer_seconds.push_back(seconds(random));
      layers.push_back(seconds(random) * 5);
      total += layers.back();
      const double both = layer_seconds.back() * layers.back();
      const double forward = both * (0.2 + 0.2 * seconds(random));
      pipeline.stages.push_back({forward, both - forward, 0, 0});
    }
    pipeline.micro_batches = 1 + static_cast<int64_t>(random() % 16);
    EXPECT_LE(SplitBound(layer_seconds, total, pipeline.micro_batches),
              Simulated(pipeline) * (1 + 1e-12));
  }
}

TEST(SplitBoundTest, IsTheIdealSplitForManyMicroBatches) {
  // Speeds 1 and 1/3: four layers a time unit times three... 400 micro-batches of 8 layers.
  EXPECT_NEAR(SplitBound({1, 3}, 8, 100000) / (100000 * 8 / (1 + 1.0 / 3)), 1, 1e-4);
}

}  // namespace
}  // namespace hapmoe::search
