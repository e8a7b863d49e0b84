#include "core/cost/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hapmoe::cost {
namespace {

StageTimes Stage(double forward, double backward, double send = 0, int64_t chunks = 1) {
  StageTimes times;
  times.chunks.assign(static_cast<size_t>(chunks), {forward, backward});
  times.send_seconds = send;
  return times;
}

double Finish(const std::vector<StageTimeline>& timelines) {
  double finish = 0;
  for (const StageTimeline& timeline : timelines)
    finish = std::max(finish, timeline.finish_seconds);
  return finish;
}

TEST(ScheduleTest, OneStageRunsItsWork) {
  const auto timelines = SimulateSchedule({Stage(1, 2)}, {.micro_batches = 5});
  EXPECT_EQ(timelines[0].finish_seconds, 15);  // 5 x (1 + 2)
  EXPECT_EQ(timelines[0].idle_seconds, 0);
  EXPECT_EQ(timelines[0].peak_in_flight, 1);
}

TEST(ScheduleTest, EqualStagesTakeTheClosedForm) {
  // (M + P - 1) (f + b).
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (const int64_t micro_batches : {1, 2, 3, 8, 17}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, " << micro_batches);
      const auto timelines =
          SimulateSchedule(std::vector<StageTimes>(static_cast<size_t>(stages), Stage(1, 2)),
                           {.micro_batches = micro_batches});
      EXPECT_DOUBLE_EQ(Finish(timelines), 3.0 * static_cast<double>(micro_batches + stages - 1));
      for (int64_t i = 0; i < stages; ++i) {
        EXPECT_EQ(timelines[static_cast<size_t>(i)].peak_in_flight,
                  std::min(micro_batches, stages - i));
      }
    }
  }
}

TEST(ScheduleTest, TwoStagesByHand) {
  const auto timelines = SimulateSchedule({Stage(1, 2), Stage(3, 5)}, {.micro_batches = 2});
  // Stage 0: F1 0-1, F2 1-2. Stage 1: F1 1-4, B1 4-9, F2 9-12, B2 12-17. Stage 0: B1 9-11, B2
  // 17-19.
  EXPECT_EQ(timelines[1].finish_seconds, 17);
  EXPECT_EQ(timelines[0].finish_seconds, 19);
  EXPECT_EQ(timelines[1].idle_seconds, 1);
  EXPECT_EQ(timelines[0].idle_seconds, 13);  // 2-9 and 11-17.
}

TEST(ScheduleTest, BlockingTransfersOccupyTheSender) {
  const auto timelines =
      SimulateSchedule({Stage(1, 2, 0.5), Stage(1, 2, 0.25)}, {.micro_batches = 1});
  // F 0-1, sent 1.5, F 1.5-2.5, B 2.5-4.5, sent 5, B 5-7.
  EXPECT_EQ(timelines[0].finish_seconds, 7);
  EXPECT_EQ(timelines[0].transfer_seconds, 0.5);
  EXPECT_EQ(timelines[1].transfer_seconds, 0.5);
}

TEST(ScheduleTest, OverlappedTransfersDelayOnlyTheReceiver) {
  const std::vector<StageTimes> stages = {Stage(1, 1, 0.5, 2), Stage(1, 1, 0.5, 2)};
  const auto blocking = SimulateSchedule(stages, {.micro_batches = 4});
  const auto overlapped = SimulateSchedule(stages, {.micro_batches = 4, .overlap_transfers = true});
  EXPECT_LT(Finish(overlapped), Finish(blocking));
  EXPECT_EQ(overlapped[0].transfer_seconds, 0);
}

TEST(ScheduleTest, InterleavingShrinksTheBubble) {
  // P = 4, M = 8, v = 2, equal chunks: work v M (f + b) and a bubble of (P - 1)(f + b).
  const auto timelines =
      SimulateSchedule(std::vector<StageTimes>(4, Stage(1, 2, 0, 2)), {.micro_batches = 8});
  EXPECT_DOUBLE_EQ(Finish(timelines), 2 * 8 * 3 + 3 * 3);
  // Rank 0 has 2 (P - 1) + (v - 1) P + 1 chunk passes in flight.
  EXPECT_EQ(timelines[0].peak_in_flight, 6 + 4 + 1);
  EXPECT_EQ(timelines[3].peak_in_flight, 4 + 1);
}

TEST(ScheduleTest, SlowerPassesNeverFinishSooner) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 2);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const int64_t chunks = 1 + static_cast<int64_t>(random() % 3);
    const int64_t count = 2 + static_cast<int64_t>(random() % 4);
    std::vector<StageTimes> stages;
    for (int64_t i = 0; i < count; ++i) {
      const double forward = seconds(random);
      const double backward = seconds(random);
      stages.push_back(Stage(forward, backward, seconds(random) / 10, chunks));
    }
    const ScheduleOptions options{.micro_batches = count * 2};
    const double before = Finish(SimulateSchedule(stages, options));
    stages[random() % stages.size()].chunks.front().forward += seconds(random);
    EXPECT_GE(Finish(SimulateSchedule(stages, options)), before);
  }
}

TEST(ScheduleTest, EveryRankDoesAllItsWork) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> seconds(0.1, 2);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const int64_t count = 1 + static_cast<int64_t>(random() % 6);
    const int64_t chunks = count == 1 ? 1 : 1 + static_cast<int64_t>(random() % 3);
    // With virtual stages the engine wants whole groups, or more left over than there are stages.
    const int64_t micro_batches = chunks == 1 ? 1 + static_cast<int64_t>(random() % 20)
                                              : count * (1 + static_cast<int64_t>(random() % 5));
    std::vector<StageTimes> stages;
    double work = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double forward = seconds(random);
      stages.push_back(Stage(forward, seconds(random), 0, chunks));
      const ChunkTimes& one = stages.back().chunks.front();
      work = std::max(work, (one.forward + one.backward) * static_cast<double>(chunks));
    }
    const auto timelines = SimulateSchedule(stages, {.micro_batches = micro_batches});
    EXPECT_GE(Finish(timelines) * (1 + 1e-12), work * static_cast<double>(micro_batches));
    for (size_t i = 0; i < timelines.size(); ++i) {
      const ChunkTimes& one = stages[i].chunks.front();
      EXPECT_NEAR(timelines[i].finish_seconds - timelines[i].idle_seconds,
                  (one.forward + one.backward) * static_cast<double>(chunks * micro_batches), 1e-9);
    }
  }
}

}  // namespace
}  // namespace hapmoe::cost
