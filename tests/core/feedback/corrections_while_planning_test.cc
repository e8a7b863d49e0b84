// Reports that come in while plans are made: readers hold whole corrections, whatever is set.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/feedback/calibration.h"
#include "server/concurrency/snapshot.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::feedback {
namespace {

using ProfilePtr = std::shared_ptr<const profile::AcceleratorProfile>;

Observation SmallRun(const ProfilePtr& type) {
  cost::Problem problem = hapmoe::testing::TestProblem(hapmoe::testing::SmallModel(4, 256));
  problem.profiles = {type};
  plan::Chunk chunk;
  chunk.layers = 4;
  chunk.embedding = chunk.loss = true;
  plan::Mesh mesh;
  mesh.degrees.dp = 32;
  mesh.stages = {{.chunks = {chunk}, .recompute = {}}};
  Observation run;
  run.plan.meshes = {mesh};
  run.plan.global_batch = 64;
  run.plan.micro_batches = 2;
  run.problem = std::make_shared<const cost::Problem>(problem);
  run.run = "small";
  return run;
}

TEST(CorrectionsWhilePlanning, EveryPredictionIsByOneSetOfCorrections) {
  const ProfilePtr type = hapmoe::testing::ScaledProfile("a", 1, 1e12);
  Observation run = SmallRun(type);
  const double plain = cost::Evaluate(*run.problem, run.plan)->iteration_seconds;
  run.seconds = 1.2 * plain;
  struct Corrected {
    ProfilePtr profile;
    double seconds = 0;  // Of the run, by this profile.
  };
  const auto make = [&](const std::vector<Observation>& reports) {
    auto profile = std::make_shared<profile::AcceleratorProfile>(*type);
    if (!reports.empty()) profile->corrections = Calibrate(reports).types.at(type).corrections;
    cost::Problem problem = *run.problem;
    problem.profiles = {profile};
    const double seconds = cost::Evaluate(problem, run.plan)->iteration_seconds;
    return std::make_shared<const Corrected>(Corrected{profile, seconds});
  };
  server::Snapshot<Corrected> current(make({}));
  std::atomic<bool> done = false;
  std::vector<std::thread> planners;
  for (int i = 0; i < 3; ++i) {
    planners.emplace_back([&] {
      while (!done.load()) {
        const std::shared_ptr<const Corrected> corrected = current.Get();
        cost::Problem problem = *run.problem;
        problem.profiles = {corrected->profile};
        ASSERT_EQ(cost::Evaluate(problem, run.plan)->iteration_seconds, corrected->seconds);
      }
    });
  }
  std::vector<Observation> reports;
  for (int i = 0; i < 20; ++i) {
    reports.push_back(run);
    reports.back().run += std::to_string(i);
    current.Set(make(reports));
    if (i % 7 == 6) reports.clear();
  }
  done = true;
  for (std::thread& planner : planners) planner.join();
  EXPECT_GT(current.Get()->seconds, 1.1 * plain);
}

}  // namespace
}  // namespace hapmoe::feedback
