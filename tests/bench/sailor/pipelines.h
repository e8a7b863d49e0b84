// Sailor's formulas built up from the last stage of a pipeline, for the search.
#ifndef HAPMOE_TESTS_BENCH_SAILOR_PIPELINES_H_
#define HAPMOE_TESTS_BENCH_SAILOR_PIPELINES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/bench/sailor/cost.h"
#include "tests/bench/sailor/plan_search.h"
#include "tests/bench/sailor/profile.h"
#include "tests/bench/sailor/suffix_program.h"

namespace hapmoe::bench::sailor {

// The terms of IterationSeconds and Fits for one number of replicas and one micro-batch.
class Pipelines {
 public:
  struct Label {
    double sum = 0;      // Of all stages, but for the gradient that the front stage sends.
    double slowest = 0;  // Of the stages behind the front one.
    double front = 0;    // The front stage without the gradient that it sends.
    double update = 0;
    double sync = 0;
    double doubled = 0;  // What the front stage takes more where it is the first of more than 3.
    int stages = 0;
  };

  Pipelines(const Task& task, int64_t replicas, int micro_batch);

  int64_t replicas() const { return replicas_; }
  int64_t micro_batch() const { return micro_batch_; }
  Stage StageOf(search::SuffixFront front, int last) const {
    const Option& option = options_[static_cast<size_t>(front.option)];
    return {option.type, option.tp, front.first, last};
  }

  // No plan takes less.
  double LeastSeconds(double limit) const;

  int layers() const { return layers_; }
  int options() const { return static_cast<int>(options_.size()); }
  int resources() const { return static_cast<int>(available_.size()); }
  int available(int resource) const { return available_[static_cast<size_t>(resource)]; }
  int resource(int option) const { return options_[static_cast<size_t>(option)].type; }
  int units(int option) const { return options_[static_cast<size_t>(option)].tp; }

  bool Last(int option, int first, double limit, Label& label) const {
    label = Label();
    return AddStage(option, first, layers_, 0, 0, limit, label);
  }

  bool Extend(const Label& suffix, search::SuffixFront behind, int option, int first, double limit,
              Label& label) const;

  double Complete(const Label& label) const {
    const double more = label.stages > 3 ? label.doubled : 0;
    return rounds_ * std::max(label.slowest, label.front + more) + label.sum + more + label.update +
           label.sync;
  }

  double Bound(const Label& label, search::SuffixFront front, const search::SuffixUnits& left,
               double limit) const;

  double Rank(const Label& label, search::SuffixFront front,
              const search::SuffixUnits& left) const {
    return rounds_ * std::max({label.slowest, label.front, Slowest(front.first, left)}) +
           label.sum + label.update + label.sync;
  }

  bool Replaces(const Label& first, const Label& second, search::SuffixFront front,
                const search::SuffixUnits& left) const;

 private:
  struct Option {
    int type = 0;
    int tp = 1;
    double memory_bytes = 0;
    std::vector<double> pass;         // Sums over the layers in front of one.
    std::vector<double> parameters;   // The same, of a rank.
    std::vector<double> activations;  // The same.
    std::vector<double> sync;         // [first * (layers + 1) + last]
    const std::vector<double>* update = nullptr;
    // Of layers that count in the bound.
    double layer_seconds = std::numeric_limits<double>::infinity();
    double layer_parameters = std::numeric_limits<double>::infinity();
    double layer_activations = std::numeric_limits<double>::infinity();
    double least_update = std::numeric_limits<double>::infinity();
    double least_send = std::numeric_limits<double>::infinity();  // Of an activation to any option.
    std::vector<double> most_layers;                              // That fit, by the stages behind.
  };

  size_t At(int option, int layer) const { return static_cast<size_t>(option * layers_ + layer); }
  double Send(int from, int to, int layer) const {
    return sends_[static_cast<size_t>((from * options() + to) * layers_ + layer)];
  }

  void AddOption(int type, int tp, const LayerTimes& times);

  void SendTables();

  // Layers of about the same size count in the bound; of the others, such as an embedding that
  // takes next to nothing, only the time.
  void BoundTables();

  // Puts the stage [first, last) in front of `behind` stages, sending each activation in `send`.
  bool AddStage(int index, int first, int last, int behind, double send, double limit,
                Label& label) const;

  // The slowest stage takes at least this where the layers in front of `first` go to `left`.
  double Slowest(int first, const search::SuffixUnits& left) const;

  // A bound of what is completed from `label`, whose front has sent its gradient. Under the limit
  // no stage may be slower than `most`, so a unit of a type takes so many layers only; the fastest
  // types are filled first.
  double BoundOf(const Label& label, int first, const search::SuffixUnits& left,
                 double limit) const;

  const Profile& profile_;
  const int64_t replicas_;
  const int64_t micro_batch_;
  const double rounds_;  // Micro-batches but one.
  const int layers_;
  std::vector<int> available_;  // Of each type, in replicas.
  std::vector<Option> options_;
  std::vector<double> sends_;           // [from][to][layer whose output is sent]
  std::vector<double> least_gradient_;  // [option][layer], to any other option.
  std::vector<double> most_gradient_;
  std::vector<double> counted_;            // Layers that count, in front of one.
  std::vector<double> uncounted_seconds_;  // Of the others, at least.
  std::vector<double> best_rate_;          // Layers a second of one unit, by type.
  std::vector<double> fastest_;            // Seconds of a layer, by type.
  std::vector<int> by_speed_;              // Types, fastest first.
  double least_update_ = std::numeric_limits<double>::infinity();
  double least_send_ = std::numeric_limits<double>::infinity();
};

}  // namespace hapmoe::bench::sailor

#endif  // HAPMOE_TESTS_BENCH_SAILOR_PIPELINES_H_
