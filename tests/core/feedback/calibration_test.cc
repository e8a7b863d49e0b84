// What must hold of corrections whatever the reports are.
#include "core/feedback/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/evaluate.h"
#include "tests/core/feedback/predict_by.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::feedback {
namespace {

using hapmoe::testing::Mixtral8x7B;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using profile::Term;
using ProfilePtr = std::shared_ptr<const profile::AcceleratorProfile>;

// Round figures of an accelerator of today.
ProfilePtr Modern(const std::string& name) {
  profile::AcceleratorProfile profile = hapmoe::testing::UnitProfile(name);
  profile.bf16_flops_per_second = 1e15;
  profile.memory_bytes = 80e9;
  profile.memory_bytes_per_second = 3e12;
  profile.scale_up_bytes_per_second = 400e9;
  profile.scale_up_pair_bytes_per_second = 400e9;
  profile.network_bytes_per_second = 50e9;
  profile.matrix_ratio = 0.7;
  profile.allocator_slack_ratio = 0.1;
  return std::make_shared<const profile::AcceleratorProfile>(profile);
}

// Mixtral on nodes of the given types, four stages of equal layers.
Observation RunOn(const std::vector<ProfilePtr>& types, int64_t dp, int64_t micro_batches) {
  cost::Problem problem;
  problem.model = Mixtral8x7B();
  problem.training = SmallTraining(dp * micro_batches);
  plan::Plan plan;
  for (size_t t = 0; t < types.size(); ++t) {
    problem.cluster.pools.push_back(SmallPool(types[t]->name, 4 * dp, 8));
    problem.profiles.push_back(types[t]);
    plan::Mesh mesh;
    mesh.pool = static_cast<int64_t>(t);
    mesh.degrees = {.tp = 4, .dp = dp, .ep = dp};
    const int64_t stages = 4 / static_cast<int64_t>(types.size());
    for (int64_t s = 0; s < stages; ++s) {
      plan::Chunk chunk;
      chunk.first_layer = 8 * (static_cast<int64_t>(t) * stages + s);
      chunk.layers = 8;
      chunk.embedding = chunk.first_layer == 0;
      chunk.loss = chunk.first_layer == 24;
      mesh.stages.push_back({.chunks = {chunk}, .recompute = {}});
    }
    plan.meshes.push_back(std::move(mesh));
  }
  plan.global_batch = dp * micro_batches;
  plan.micro_batches = micro_batches;
  plan.sequence_parallel = true;
  Observation observation;
  observation.problem = std::make_shared<const cost::Problem>(std::move(problem));
  observation.plan = std::move(plan);
  observation.run = types.front()->name + std::to_string(dp) + "." + std::to_string(micro_batches);
  return observation;
}

cost::Prediction Predict(const Observation& run, const Calibration& calibration = {}) {
  return PredictBy(calibration, run);
}

double Seconds(const Observation& run, const Calibration& calibration = {}) {
  return Predict(run, calibration).iteration_seconds;
}

// The run as measured to take `ratio` times what is predicted.
Observation Reported(Observation run, double ratio) {
  run.seconds = ratio * Seconds(run);
  return run;
}

TEST(Calibration, AReportMovesThePredictionTowardsIt) {
  const Observation run = RunOn({Modern("a")}, 2, 16);
  const double predicted = Seconds(run);
  for (const double ratio : {0.8, 0.9, 1.1, 1.25, 1.5}) {
    SCOPED_TRACE(ratio);
    const double corrected = Seconds(run, Calibrate({Reported(run, ratio)}));
    const double left = std::abs(std::log(corrected / predicted / ratio));
    EXPECT_LT(left, 0.3 * std::abs(std::log(ratio)));
    EXPECT_EQ(corrected > predicted, ratio > 1);
  }
}

TEST(Calibration, AReportIsBelievedOrSetAsideAndNothingBetween) {
  const auto width = [](const cost::Prediction& p) {
    return std::log(p.high_iteration_seconds / p.low_iteration_seconds);
  };
  int believed = 0;
  int set_aside = 0;
  for (const bool experts : {false, true}) {
    Observation run = RunOn({Modern("a")}, 2, 16);
    if (!experts) {
      cost::Problem dense = *run.problem;
      dense.model = hapmoe::testing::SmallModel(32, 4096);
      run.problem = std::make_shared<const cost::Problem>(std::move(dense));
      run.plan.meshes.front().degrees.ep = 1;
    }
    const cost::Prediction before = Predict(run);
    for (double ratio = 0.1; ratio < 20; ratio *= 1.07) {
      SCOPED_TRACE(::testing::Message() << ratio << (experts ? " with experts" : " dense"));
      const Calibration calibration = Calibrate({Reported(run, ratio)});
      const cost::Prediction after = Predict(run, calibration);
      const double moved = std::log(after.iteration_seconds / before.iteration_seconds);
      const double weight = calibration.verdicts.front().weight;
      if (weight > 0.5) {
        ++believed;
        EXPECT_LT(std::abs(std::log(ratio) - moved), 0.25);
      } else {
        ++set_aside;
        EXPECT_LT(weight, 0.1);
        EXPECT_LT(std::abs(moved), 0.05);
        EXPECT_GT(width(after), 0.95 * width(before));
      }
    }
  }
  EXPECT_GT(believed, 20);
  EXPECT_GT(set_aside, 20);
}

TEST(Calibration, AReportCarriesOverToOtherScalesOfItsJob) {
  const ProfilePtr type = Modern("a");
  const Calibration calibration = Calibrate({Reported(RunOn({type}, 1, 32), 1.2)});
  for (const int64_t dp : {2, 4, 8}) {
    const Observation larger = RunOn({type}, dp, 32);
    EXPECT_NEAR(Seconds(larger, calibration) / Seconds(larger), 1.2, 0.06) << dp;
  }
}

TEST(Calibration, AReportEqualToItsPredictionChangesNothing) {
  const ProfilePtr a = Modern("a");
  const Observation run = RunOn({a}, 2, 16);
  Observation report = Reported(run, 1);
  report.allocated_bytes = Predict(run).allocated_memory_bytes();
  report.reserved_bytes = Predict(run).reserved_memory_bytes();
  const Calibration calibration = Calibrate({report});
  EXPECT_EQ(calibration.types.at(a).corrections, profile::Corrections());
  EXPECT_NEAR(calibration.verdicts[0].weight, 1, 1e-3);
  // Among others too: what is left of it is nothing.
  const Calibration twice = Calibrate({Reported(run, 1.1)});
  Observation same = run;
  same.seconds = Seconds(run, twice);
  same.run = "another";
  EXPECT_NEAR(Seconds(run, Calibrate({Reported(run, 1.1), same})) / *same.seconds, 1, 2e-2);
}

TEST(Calibration, WithoutReportsNothingChangesToTheLastBit) {
  const Observation run = RunOn({Modern("a"), Modern("b")}, 2, 16);
  const cost::Prediction plain = cost::Evaluate(*run.problem, run.plan).value();
  const cost::Prediction none = Predict(run, Calibrate({}));
  EXPECT_EQ(none.iteration_seconds, plain.iteration_seconds);
  EXPECT_EQ(none.low_iteration_seconds, plain.low_iteration_seconds);
  EXPECT_EQ(none.device_memory_bytes(), plain.device_memory_bytes());
}

TEST(Calibration, OrderOfReportsDoesNotMatter) {
  const ProfilePtr a = Modern("a");
  const ProfilePtr b = Modern("b");
  std::vector<Observation> reports = {
      Reported(RunOn({a}, 1, 32), 1.1),  Reported(RunOn({a}, 4, 8), 1.3),
      Reported(RunOn({b}, 2, 16), 0.95), Reported(RunOn({a, b}, 2, 64), 1.15),
      Reported(RunOn({a}, 2, 16), 0.7),  Reported(RunOn({b}, 8, 8), 1.02)};
  const Calibration first = Calibrate(reports);
  for (int turn = 0; turn < 3; ++turn) {
    std::rotate(reports.begin(), reports.begin() + 2, reports.end());
    if (turn == 1) std::reverse(reports.begin(), reports.end());
    const Calibration again = Calibrate(reports);
    for (const ProfilePtr& type : {a, b}) {
      EXPECT_EQ(again.types.at(type).corrections, first.types.at(type).corrections);
    }
  }
}

TEST(Calibration, StopsWhenItIsInterrupted) {
  const ProfilePtr a = Modern("a");
  std::vector<Observation> reports;
  for (int i = 0; i < 64; ++i) {
    reports.push_back(Reported(RunOn({a}, 1 << i % 4, 32 >> i % 4), 1.1 + 0.001 * i));
    reports.back().run += std::to_string(i);
  }
  Interrupter interrupter;
  const std::optional<Calibration> whole = Calibrate(reports, interrupter);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->types.at(a).corrections, Calibrate(reports).types.at(a).corrections);
  interrupter.Trip(Interrupter::Cause::kCancelled);
  EXPECT_FALSE(Calibrate(reports, interrupter).has_value());
  EXPECT_TRUE(Calibrate({}, interrupter).has_value());  // There is nothing to stop.
}

TEST(Calibration, AReportOnOneTypeLeavesOthersAlone) {
  const ProfilePtr a = Modern("a");
  const ProfilePtr b = Modern("b");
  const Observation of_b = RunOn({b}, 2, 16);
  const Calibration calibration = Calibrate({Reported(RunOn({a}, 2, 16), 1.3)});
  EXPECT_EQ(Seconds(of_b, calibration), Seconds(of_b));
  // Nor does it change what reports on the other said.
  const std::vector<Observation> of_b_alone = {Reported(of_b, 0.9)};
  std::vector<Observation> both = of_b_alone;
  both.push_back(Reported(RunOn({a}, 2, 16), 1.3));
  EXPECT_EQ(Seconds(of_b, Calibrate(both)), Seconds(of_b, Calibrate(of_b_alone)));
  // A plan on both says something of both.
  const Calibration mixed = Calibrate({Reported(RunOn({a, b}, 2, 16), 1.3)});
  EXPECT_GT(Seconds(of_b, mixed), Seconds(of_b));
}

TEST(Calibration, AWildOutlierMovesNothing) {
  const ProfilePtr a = Modern("a");
  const std::vector<Observation> good = {Reported(RunOn({a}, 2, 16), 1.1),
                                         Reported(RunOn({a}, 4, 16), 1.12)};
  const Observation run = RunOn({a}, 8, 16);
  const double before = Seconds(run, Calibrate(good));
  for (const double wild : {0.1, 10.0, 50.0}) {
    for (size_t known = 0; known <= good.size(); ++known) {
      std::vector<Observation> reports(good.begin(),
                                       good.begin() + static_cast<std::ptrdiff_t>(known));
      const double without = Seconds(run, Calibrate(reports));
      reports.push_back(Reported(RunOn({a}, 1, 64), wild));
      const Calibration calibration = Calibrate(reports);
      EXPECT_NEAR(Seconds(run, calibration) / without, 1, 2e-3) << wild << " after " << known;
      EXPECT_LT(calibration.verdicts.back().weight, 1e-2);
    }
  }
  EXPECT_GT(before / Seconds(run), 1.05);
}

TEST(Calibration, FactorsStayWithinBoundsWhateverIsReported) {
  const ProfilePtr a = Modern("a");
  const FitOptions bounds;
  for (const double ratio : {0.05, 0.3, 3.0, 20.0}) {
    std::vector<Observation> reports;
    for (const int64_t dp : {1, 2, 4, 8}) reports.push_back(Reported(RunOn({a}, dp, 16), ratio));
    const profile::Corrections corrections = Calibrate(reports).types.at(a).corrections;
    for (size_t term = 0; term < profile::kTerms; ++term) {
      const double factor = corrections.of(static_cast<Term>(term));
      EXPECT_GE(factor, std::exp(bounds.least) * (1 - 1e-12)) << ratio;
      EXPECT_LE(factor, std::exp(bounds.most) * (1 + 1e-12)) << ratio;
    }
  }
}

TEST(Calibration, OldReportsSayLess) {
  const ProfilePtr a = Modern("a");
  const Observation run = RunOn({a}, 2, 16);
  double last = Seconds(run, Calibrate({Reported(run, 1.2)}));
  for (const double days : {200.0, 700.0, 3000.0}) {
    Observation old = Reported(run, 1.2);
    old.age_days = days;
    const double seconds = Seconds(run, Calibrate({old}));
    EXPECT_LT(seconds, last) << days;
    EXPECT_GT(seconds, Seconds(run));
    last = seconds;
  }
}

TEST(Calibration, RepeatingOneRunSaysLittleMore) {
  const ProfilePtr a = Modern("a");
  const Observation run = RunOn({a}, 2, 16);
  const std::vector<Observation> once = {Reported(run, 1.2)};
  const std::vector<Observation> often(20, once[0]);
  const auto width = [&](const std::vector<Observation>& reports) {
    const cost::Prediction prediction = Predict(run, Calibrate(reports));
    return prediction.high_iteration_seconds / prediction.low_iteration_seconds;
  };
  EXPECT_NEAR(width(often), width(once), 0.03);
}

TEST(Calibration, ReportsNarrowTheBandWhereTheyTell) {
  const ProfilePtr a = Modern("a");
  const Observation run = RunOn({a}, 2, 16);
  const auto width = [](const cost::Prediction& prediction) {
    return std::log(prediction.high_iteration_seconds / prediction.low_iteration_seconds);
  };
  const Calibration one = Calibrate({Reported(run, 1.05)});
  const Calibration three = Calibrate(
      {Reported(run, 1.05), Reported(RunOn({a}, 4, 8), 1.04), Reported(RunOn({a}, 1, 64), 1.06)});
  EXPECT_LT(width(Predict(run, one)), 0.8 * width(Predict(run)));
  EXPECT_LT(width(Predict(run, three)), width(Predict(run, one)));
  const cost::Prediction corrected = Predict(run, three);
  EXPECT_LT(corrected.low_iteration_seconds, corrected.iteration_seconds);
  EXPECT_GT(corrected.high_iteration_seconds, corrected.iteration_seconds);
}

TEST(Calibration, MemoryIsCorrectedApartFromTime) {
  const ProfilePtr a = Modern("a");
  const Observation run = RunOn({a}, 2, 16);
  const cost::Prediction before = Predict(run);
  Observation report = run;
  report.allocated_bytes = 1.05 * before.allocated_memory_bytes();
  report.reserved_bytes = 1.08 * before.reserved_memory_bytes();
  const Calibration calibration = Calibrate({report});
  const cost::Prediction after = Predict(run, calibration);
  EXPECT_EQ(after.iteration_seconds, before.iteration_seconds);
  EXPECT_GT(after.allocated_memory_bytes(), 1.02 * before.allocated_memory_bytes());
  EXPECT_LT(after.allocated_memory_bytes(), 1.06 * before.allocated_memory_bytes());
  EXPECT_GT(calibration.types.at(a).corrections.of(Term::kSlack), 1);
  EXPECT_EQ(calibration.types.at(a).corrections.of(Term::kProducts), 1);
}

// What was made slower is found to be, where runs tell it from the rest.
TEST(Calibration, FindsTheTermThatIsSlow) {
  const ProfilePtr a = Modern("a");
  for (const Term slow_term : {Term::kProducts, Term::kScaleUp}) {
    SCOPED_TRACE(profile::kTermNames[static_cast<size_t>(slow_term)]);
    auto slow = std::make_shared<profile::AcceleratorProfile>(*a);
    slow->corrections.set(slow_term, 1.5);
    std::vector<Observation> reports;
    for (const int64_t tp : {1, 2, 4, 8}) {
      for (const int64_t micro_batches : {8, 32}) {
        Observation run = RunOn({a}, 2, micro_batches);
        run.plan.meshes[0].degrees.tp = tp;
        run.plan.sequence_parallel = tp > 1;
        run.run += "tp" + std::to_string(tp);
        run.plan.meshes[0].degrees.ep = 1;
        cost::Problem problem = *run.problem;
        problem.model = hapmoe::testing::Llama3Of8B();  // Nothing is routed.
        run.problem = std::make_shared<const cost::Problem>(problem);
        problem.profiles = {slow};
        run.seconds = cost::Evaluate(problem, run.plan)->iteration_seconds;
        reports.push_back(run);
      }
    }
    const profile::Corrections found = Calibrate(reports).types.at(a).corrections;
    for (size_t i = 0; i < static_cast<size_t>(Term::kActivations); ++i) {
      const auto term = static_cast<Term>(i);
      if (term == slow_term) continue;
      EXPECT_GT(found.of(slow_term), found.of(term) + 0.02) << profile::kTermNames[i];
    }
  }
}

}  // namespace
}  // namespace hapmoe::feedback
