#include "tests/bench/sailor/pipelines.h"

#include <array>
#include <utility>

namespace hapmoe::bench::sailor {

using search::SuffixFront;
using search::SuffixUnits;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums over layers in front of one.
std::vector<double> PrefixSums(const std::vector<double>& values) {
  std::vector<double> sums = {0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

}  // namespace

Pipelines::Pipelines(const Task& task, int64_t replicas, int micro_batch)
    : profile_(*task.profile),
      replicas_(replicas),
      micro_batch_(micro_batch),
      rounds_(static_cast<double>(task.global_batch / (micro_batch * replicas) - 1)),
      layers_(profile_.layers) {
  for (size_t type = 0; type < profile_.types.size(); ++type) {
    available_.push_back(static_cast<int>(task.accelerators[type] / replicas));
    for (const int tp : kTensorDegrees) {
      const auto& times = profile_.types[type].times;
      const auto found = times.find({micro_batch, tp});
      if (found == times.end() || available_.back() < tp) continue;
      AddOption(static_cast<int>(type), tp, found->second);
    }
  }
  SendTables();
  BoundTables();
}

double Pipelines::LeastSeconds(double limit) const {
  if (options_.empty()) return kInfinity;
  SuffixUnits all;
  for (int i = 0; i < resources(); ++i) all.Add(i, available(i));
  return BoundOf({}, layers_, all, limit);
}

bool Pipelines::Extend(const Label& suffix, SuffixFront behind, int option, int first, double limit,
                       Label& label) const {
  label = suffix;
  const double gradient = Send(behind.option, option, behind.first) * (suffix.stages == 1 ? 2 : 1);
  label.sum += gradient;
  label.slowest = std::max(label.slowest, label.front + gradient);
  return AddStage(option, first, behind.first, suffix.stages,
                  Send(option, behind.option, behind.first - 1), limit, label);
}

double Pipelines::Bound(const Label& label, SuffixFront front, const SuffixUnits& left,
                        double limit) const {
  // At least one more stage comes in front: the front stage sends its gradient, and the next an
  // activation.
  const double gradient =
      least_gradient_[At(front.option, front.first)] * (label.stages == 1 ? 2 : 1);
  Label sent = label;
  sent.sum += gradient;
  sent.slowest = std::max(label.slowest, label.front + gradient);
  return BoundOf(sent, front.first, left, limit);
}

bool Pipelines::Replaces(const Label& first, const Label& second, SuffixFront front,
                         const SuffixUnits& left) const {
  // Fewer stages leave more memory to those in front, and only a last stage doubles its gradient.
  if (first.sum > second.sum || first.stages > second.stages ||
      (first.stages == 1) != (second.stages == 1)) {
    return false;
  }
  const double times = first.stages == 1 ? 2 : 1;
  const size_t at = At(front.option, front.first);
  const double floor = std::max(second.slowest, Slowest(front.first, left));
  const double slower = std::max(
      {0.0, first.slowest - std::max(floor, second.front + times * least_gradient_[at]),
       std::min(first.front - second.front, first.front + times * most_gradient_[at] - floor)});
  return rounds_ * slower + (first.sum - second.sum) + std::max(0.0, first.update - second.update) +
             std::max(0.0, first.sync - second.sync) <=
         0;
}

void Pipelines::AddOption(int type, int tp, const LayerTimes& times) {
  Option option;
  option.type = type;
  option.tp = tp;
  option.memory_bytes = profile_.types[static_cast<size_t>(type)].memory_bytes;
  option.pass = PrefixSums(times.pass);
  option.parameters = PrefixSums(profile_.sizes.at(tp).parameters);
  option.activations = PrefixSums(profile_.sizes.at(tp).activations);
  option.update = &times.update;
  option.least_update = *std::min_element(times.update.begin(), times.update.end());
  const std::vector<double> whole = PrefixSums(profile_.sizes.at(1).parameters);
  const Bandwidth& link = profile_.link(type, 1, type, 1);
  option.sync.resize(static_cast<size_t>((layers_ + 1) * (layers_ + 1)));
  for (int first = 0; first < layers_; ++first) {
    for (int last = first + 1; last <= layers_; ++last) {
      const double parameters =
          whole[static_cast<size_t>(last)] - whole[static_cast<size_t>(first)];
      option.sync[static_cast<size_t>(first * (layers_ + 1) + last)] =
          AllReduceSeconds(link, 4 * parameters / tp, replicas_);
    }
  }
  options_.push_back(std::move(option));
}

void Pipelines::SendTables() {
  const int n = options();
  sends_.resize(static_cast<size_t>(n * n * layers_));
  least_gradient_.assign(static_cast<size_t>(n * layers_), kInfinity);
  most_gradient_.assign(static_cast<size_t>(n * layers_), 0);
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to) {
      Option& sender = options_[static_cast<size_t>(from)];
      const Option& receiver = options_[static_cast<size_t>(to)];
      const Bandwidth& link = profile_.link(sender.type, sender.tp, receiver.type, receiver.tp);
      double bytes = -1;
      double seconds = 0;
      for (int layer = 0; layer < layers_; ++layer) {
        const double now =
            4 * profile_.outputs[static_cast<size_t>(layer)] * static_cast<double>(micro_batch_);
        if (now != bytes) seconds = link.Seconds(bytes = now);
        sends_[static_cast<size_t>((from * n + to) * layers_ + layer)] = seconds;
        double& least = least_gradient_[At(from, layer)];
        double& most = most_gradient_[At(from, layer)];
        least = std::min(least, seconds);
        most = std::max(most, seconds);
        if (layer + 1 < layers_) sender.least_send = std::min(sender.least_send, seconds);
      }
    }
  }
}

void Pipelines::BoundTables() {
  std::vector<bool> counts(static_cast<size_t>(layers_), true);
  const auto pass = [](const Option& option, size_t layer) {
    return option.pass[layer + 1] - option.pass[layer];
  };
  for (const Option& option : options_) {
    std::vector<double> sorted;
    for (size_t i = 0; i < counts.size(); ++i) sorted.push_back(pass(option, i));
    std::nth_element(sorted.begin(), sorted.begin() + layers_ / 2, sorted.end());
    const double middle = sorted[static_cast<size_t>(layers_ / 2)];
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = counts[i] && pass(option, i) > middle / 2;
  }
  counted_ = {0};
  uncounted_seconds_ = {0};
  for (size_t i = 0; i < counts.size(); ++i) {
    double least = kInfinity;
    for (Option& option : options_) {
      least = std::min(least, pass(option, i));
      if (!counts[i]) continue;
      option.layer_seconds = std::min(option.layer_seconds, pass(option, i));
      option.layer_parameters =
          std::min(option.layer_parameters, option.parameters[i + 1] - option.parameters[i]);
      option.layer_activations =
          std::min(option.layer_activations, option.activations[i + 1] - option.activations[i]);
    }
    counted_.push_back(counted_.back() + (counts[i] ? 1 : 0));
    uncounted_seconds_.push_back(uncounted_seconds_.back() + (counts[i] ? 0 : least));
  }
  best_rate_.assign(available_.size(), 0);
  std::vector<double> fastest(available_.size(), kInfinity);
  for (Option& option : options_) {
    const size_t type = static_cast<size_t>(option.type);
    best_rate_[type] = std::max(best_rate_[type], 1 / (option.tp * option.layer_seconds));
    fastest[type] = std::min(fastest[type], option.layer_seconds);
    least_update_ = std::min(least_update_, option.least_update);
    least_send_ = std::min(least_send_, option.least_send);
    for (int behind = 0; behind < layers_; ++behind) {
      const double empty = MemoryBytes(0, 0, micro_batch_, behind + 1, option.tp);
      const double layer = MemoryBytes(option.layer_parameters, option.layer_activations,
                                       micro_batch_, behind + 1, option.tp) -
                           empty;
      option.most_layers.push_back(std::max(0.0, (option.memory_bytes - empty) / layer + 1e-9));
    }
  }
  by_speed_.resize(available_.size());
  for (size_t i = 0; i < by_speed_.size(); ++i) by_speed_[i] = static_cast<int>(i);
  std::stable_sort(by_speed_.begin(), by_speed_.end(), [&](int a, int b) {
    return fastest[static_cast<size_t>(a)] < fastest[static_cast<size_t>(b)];
  });
  fastest_ = std::move(fastest);
}

bool Pipelines::AddStage(int index, int first, int last, int behind, double send, double limit,
                         Label& label) const {
  const Option& option = options_[static_cast<size_t>(index)];
  const size_t i = static_cast<size_t>(first);
  const size_t j = static_cast<size_t>(last);
  const double pass = option.pass[j] - option.pass[i];
  label.front = pass + send;
  label.doubled = send;
  label.sum += label.front;
  label.update = std::max(label.update, (*option.update)[i]);
  label.sync = std::max(label.sync, option.sync[i * static_cast<size_t>(layers_ + 1) + j]);
  label.stages = behind + 1;
  if (rounds_ * label.front + label.sum >= limit) return false;
  return MemoryBytes(option.parameters[j] - option.parameters[i],
                     option.activations[j] - option.activations[i], micro_batch_, behind + 1,
                     option.tp) <= option.memory_bytes;
}

double Pipelines::Slowest(int first, const SuffixUnits& left) const {
  double rate = 0;
  for (size_t type = 0; type < best_rate_.size(); ++type) {
    rate += left.of(static_cast<int>(type)) * best_rate_[type];
  }
  const double need = counted_[static_cast<size_t>(first)];
  return need == 0 ? 0 : rate == 0 ? kInfinity : need / rate;
}

double Pipelines::BoundOf(const Label& label, int first, const SuffixUnits& left,
                          double limit) const {
  const size_t at = static_cast<size_t>(first);
  const double need = counted_[at];
  const double tail = std::max(label.update, least_update_) + label.sync;
  // The next stage sends at least one activation to the front one, if there is one.
  const double send = label.stages > 0 ? least_send_ : 0;
  const double fixed = label.sum + send + uncounted_seconds_[at] + tail;
  const double slowest = std::max(label.slowest, Slowest(first, left));
  double sum = fixed + need * fastest_[static_cast<size_t>(by_speed_.front())];
  double bound = rounds_ * slowest + sum;
  if (bound >= limit) return bound;
  const size_t behind = static_cast<size_t>(std::min(label.stages, layers_ - 1));
  for (int round = 0; round < 2; ++round) {
    const double most = rounds_ > 0 ? (limit - sum) / rounds_ : kInfinity;
    std::array<double, search::kMaxResources> per_unit{};
    double widest = 0;
    for (const Option& option : options_) {
      const double fit = std::min(
          (most - (label.stages > 0 ? option.least_send : 0)) / option.layer_seconds + 1e-9,
          option.most_layers[behind]);
      if (fit < 1 || left.of(option.type) < option.tp) continue;
      const double whole = fit < need ? static_cast<double>(static_cast<int64_t>(fit)) : need;
      double& best = per_unit[static_cast<size_t>(option.type)];
      best = std::max(best, whole / option.tp);
      widest = std::max(widest, whole);
    }
    double rest = need;
    double seconds = 0;
    for (const int type : by_speed_) {
      if (per_unit[static_cast<size_t>(type)] == 0) continue;
      const double take = std::min(rest, left.of(type) * per_unit[static_cast<size_t>(type)]);
      seconds += take * fastest_[static_cast<size_t>(type)];
      rest -= take;
    }
    if (rest > 1e-6) return kInfinity;
    // Each stage but the first sends a gradient, each an activation.
    const double stages = widest > 0 ? need / widest : 0;
    sum = std::max(sum, fixed + seconds + std::max(0.0, stages - 1) * 2 * least_send_);
    bound = rounds_ * slowest + sum;
    if (bound >= limit) return bound;
  }
  return bound;
}

}  // namespace hapmoe::bench::sailor
