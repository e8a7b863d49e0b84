#include "tests/bench/sailor/cost.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace hapmoe::bench::sailor {
namespace {

double SumOver(const std::vector<double>& values, const Stage& stage) {
  return std::accumulate(values.begin() + stage.first, values.begin() + stage.last, 0.0);
}

// From one stage to another, the output of `layer` for a whole micro-batch.
double SendSeconds(const Profile& profile, const SailorPlan& plan, const Stage& from,
                   const Stage& to, int layer) {
  const double bytes =
      4 * profile.outputs[static_cast<size_t>(layer)] * static_cast<double>(plan.micro_batch);
  return profile.link(from.type, from.tp, to.type, to.tp).Seconds(bytes);
}

double TransferSeconds(const Profile& profile, const SailorPlan& plan, size_t i) {
  const std::vector<Stage>& stages = plan.stages;
  const size_t n = stages.size();
  const Stage& stage = stages[i];
  const double activation =
      i + 1 < n ? SendSeconds(profile, plan, stage, stages[i + 1], stage.last - 1) : 0;
  const double gradient = i > 0 ? SendSeconds(profile, plan, stage, stages[i - 1], stage.first) : 0;
  if (i == 0) return n > 3 ? 2 * activation : activation;
  return i + 1 == n ? 2 * gradient : activation + gradient;
}

}  // namespace

double IterationSeconds(const Profile& profile, int64_t global_batch, const SailorPlan& plan) {
  double slowest = 0;
  double sum = 0;
  double update = 0;
  double sync = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const AcceleratorType& type = profile.types[static_cast<size_t>(stage.type)];
    const LayerTimes& times = type.times.at({static_cast<int>(plan.micro_batch), stage.tp});
    const double seconds = SumOver(times.pass, stage) + TransferSeconds(profile, plan, i);
    slowest = std::max(slowest, seconds);
    sum += seconds;
    update = std::max(update, times.update[static_cast<size_t>(stage.first)]);
    const double bytes = 4 * SumOver(profile.sizes.at(1).parameters, stage) / stage.tp;
    sync = std::max(
        sync, AllReduceSeconds(profile.link(stage.type, 1, stage.type, 1), bytes, plan.replicas));
  }
  const int64_t micro_batches = global_batch / (plan.micro_batch * plan.replicas);
  return static_cast<double>(micro_batches - 1) * slowest + sum + update + sync;
}

bool Fits(const Profile& profile, const SailorPlan& plan) {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const LayerSizes& sizes = profile.sizes.at(stage.tp);
    const double bytes =
        MemoryBytes(SumOver(sizes.parameters, stage), SumOver(sizes.activations, stage),
                    plan.micro_batch, static_cast<int64_t>(plan.stages.size() - i), stage.tp);
    if (bytes > profile.types[static_cast<size_t>(stage.type)].memory_bytes) return false;
  }
  return true;
}

std::string Describe(const Profile& profile, const SailorPlan& plan) {
  std::string text = absl::StrCat("dp", plan.replicas, " mbs", plan.micro_batch, ":");
  for (size_t i = 0; i < plan.stages.size();) {
    // Stages alike are counted.
    const Stage& stage = plan.stages[i];
    size_t same = 1;
    while (i + same < plan.stages.size() && plan.stages[i + same].type == stage.type &&
           plan.stages[i + same].tp == stage.tp &&
           plan.stages[i + same].last - plan.stages[i + same].first == stage.last - stage.first) {
      ++same;
    }
    absl::StrAppend(&text, " ", profile.types[static_cast<size_t>(stage.type)].name, "/tp",
                    stage.tp, "/", stage.last - stage.first);
    if (same > 1) absl::StrAppend(&text, "x", same);
    i += same;
  }
  return text;
}

}  // namespace hapmoe::bench::sailor
