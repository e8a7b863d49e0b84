// The dynamic program over suffixes of a pipeline, for any cost that can be built up from the last
// stage to the first.
//
// A stage takes an option (a way to run it: a type of accelerator and a degree, say), which uses
// some units of one resource, and a run of consecutive layers. Suffixes of the pipeline are
// extended by one stage at a time in front; of those with the same front stage's option and the
// same layers left, one that is no worse in everything and uses no more of any resource replaces
// another. What the terms of a cost are, how they grow and what "no worse" means is the algebra's:
//
//   struct Algebra {
//     // Terms of a suffix. Trivially copyable.
//     struct Label;
//     int layers() const;
//     int options() const;
//     int resources() const;            // At most kMaxResources.
//     int available(int resource) const;  // Units, at most kMaxUnits.
//     int resource(int option) const;
//     int units(int option) const;      // At least 1.
//     // The stage [first, layers()) as the last one, or the stage [first, behind.first) in front
//     // of a suffix. False where neither this stage nor one with more layers leads to less than
//     // `limit`.
//     bool Last(int option, int first, double limit, Label& label) const;
//     bool Extend(const Label& suffix, SuffixFront behind, int option, int first, double limit,
//                 Label& label) const;
//     // The cost of a suffix that holds all layers.
//     double Complete(const Label& label) const;
//     // No completion of the suffix within `left` units costs less. Need not be exact above
//     // `limit`. Never decreases when units are taken away.
//     double Bound(const Label& label, SuffixFront front, const SuffixUnits& left,
//                  double limit) const;
//     // Suffixes are tried as replacements of others in ascending order of this.
//     double Rank(const Label& label, SuffixFront front, const SuffixUnits& left) const;
//     // Whether any completion of `second`, which has `left` units, costs no less on `first`,
//     // which has the same front and no fewer units.
//     bool Replaces(const Label& first, const Label& second, SuffixFront front,
//                   const SuffixUnits& left) const;
//   };
#ifndef HAPMOE_TESTS_BENCH_SAILOR_SUFFIX_PROGRAM_H_
#define HAPMOE_TESTS_BENCH_SAILOR_SUFFIX_PROGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hapmoe::search {

inline constexpr int kMaxResources = 4;
inline constexpr int kMaxUnits = (1 << 15) - 1;

// Units of each resource in one word, fifteen bits each below a guard bit.
class SuffixUnits {
 public:
  int of(int resource) const {
    return static_cast<int>((word_ >> (16 * resource)) & static_cast<uint64_t>(kMaxUnits));
  }
  void Add(int resource, int units) { word_ += static_cast<uint64_t>(units) << (16 * resource); }
  void Take(int resource, int units) { word_ -= static_cast<uint64_t>(units) << (16 * resource); }
  // Whether there is no less of any resource than in `other`.
  bool Covers(SuffixUnits other) const {
    return (((word_ | kGuards) - other.word_) & kGuards) == kGuards;
  }

 private:
  static constexpr uint64_t kGuards = 0x8000'8000'8000'8000;
  uint64_t word_ = 0;
};

// The front stage of a suffix: its option and its first layer.
struct SuffixFront {
  int option = 0;
  int first = 0;
};

template <typename Algebra>
class SuffixProgram {
 public:
  using Label = typename Algebra::Label;

  struct Result {
    bool found = false;  // Something that costs less than the limit.
    double cost = std::numeric_limits<double>::infinity();
    std::vector<SuffixFront> stages;  // Of it, from the first to the last.
    int64_t labels = 0;               // Suffixes that were extended.
  };

  // `algebra` must outlive this.
  explicit SuffixProgram(const Algebra& algebra) : algebra_(algebra) {}

  // The least cost below `limit`, over all pipelines. With a `width` only so many suffixes are
  // extended for each number of layers, those with the least bounds, and the result need not be the
  // least. Memory is kept between calls.
  Result Solve(double limit, size_t width = std::numeric_limits<size_t>::max()) {
    limit_ = limit;
    best_ = kNone;
    nodes_.clear();
    levels_.resize(static_cast<size_t>(algebra_.layers()));
    for (std::vector<Node>& level : levels_) level.clear();
    Start();
    for (int first = algebra_.layers() - 1; first > 0; --first) {
      std::vector<Node>& level = levels_[static_cast<size_t>(first)];
      const size_t begin = nodes_.size();
      Select(level, width);
      const size_t end = nodes_.size();
      for (size_t i = begin; i < end; ++i) Expand(static_cast<int32_t>(i));
    }
    Result result;
    result.labels = static_cast<int64_t>(nodes_.size());
    if (best_ == kNone) return result;
    result.found = true;
    result.cost = limit_;
    result.stages.push_back(best_front_);
    for (int32_t i = best_; i >= 0; i = nodes_[static_cast<size_t>(i)].behind) {
      result.stages.push_back(nodes_[static_cast<size_t>(i)].front);
    }
    return result;
  }

 private:
  static constexpr int32_t kNone = -2;
  static constexpr int32_t kNothingBehind = -1;

  struct Node {
    Label label;
    double bound = 0;
    double rank = 0;
    SuffixUnits left;
    SuffixFront front;
    int32_t behind = kNothingBehind;
  };

  void Start() {
    SuffixUnits all;
    for (int i = 0; i < algebra_.resources(); ++i) all.Add(i, algebra_.available(i));
    for (int option = 0; option < algebra_.options(); ++option) {
      Node node;
      node.left = all;
      if (!Take(option, node.left)) continue;
      for (int first = algebra_.layers() - 1; first >= 0; --first) {
        if (!algebra_.Last(option, first, limit_, node.label)) break;
        node.front = {option, first};
        Add(node);
      }
    }
  }

  void Expand(int32_t index) {
    // A copy: Add does not touch nodes_, but this reads better from registers.
    const Node behind = nodes_[static_cast<size_t>(index)];
    if (behind.bound >= limit_) return;  // A better pipeline was found since.
    Node node;
    node.behind = index;
    for (int option = 0; option < algebra_.options(); ++option) {
      node.left = behind.left;
      if (!Take(option, node.left)) continue;
      for (int first = behind.front.first - 1; first >= 0; --first) {
        if (!algebra_.Extend(behind.label, behind.front, option, first, limit_, node.label)) break;
        node.front = {option, first};
        Add(node);
      }
    }
  }

  bool Take(int option, SuffixUnits& left) const {
    const int resource = algebra_.resource(option);
    const int units = algebra_.units(option);
    if (left.of(resource) < units) return false;
    left.Take(resource, units);
    return true;
  }

  void Add(Node& node) {
    if (node.front.first == 0) {
      const double cost = algebra_.Complete(node.label);
      if (cost >= limit_) return;
      limit_ = cost;
      best_ = node.behind;
      best_front_ = node.front;
      return;
    }
    node.bound = algebra_.Bound(node.label, node.front, node.left, limit_);
    if (node.bound >= limit_) return;
    node.rank = algebra_.Rank(node.label, node.front, node.left);
    levels_[static_cast<size_t>(node.front.first)].push_back(node);
  }

  // Moves what is worth extending from a level to nodes_.
  void Select(std::vector<Node>& level, size_t width) {
    const double limit = limit_;
    level.erase(std::remove_if(level.begin(), level.end(),
                               [limit](const Node& node) { return node.bound >= limit; }),
                level.end());
    // What may replace others comes first.
    std::sort(level.begin(), level.end(), [](const Node& a, const Node& b) {
      if (a.front.option != b.front.option) return a.front.option < b.front.option;
      if (a.rank != b.rank) return a.rank < b.rank;
      return a.behind < b.behind;  // So that the result does not depend on how it is sorted.
    });
    const size_t begin = nodes_.size();
    size_t group = begin;
    for (const Node& node : level) {
      if (group < nodes_.size() && nodes_[group].front.option != node.front.option) {
        group = nodes_.size();
      }
      if (!Replaced(node, group)) nodes_.push_back(node);
    }
    level.clear();
    if (nodes_.size() - begin <= width) return;
    const auto start = nodes_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(start, nodes_.end(),
                     [](const Node& a, const Node& b) { return a.bound < b.bound; });
    nodes_.resize(begin + width);
  }

  bool Replaced(const Node& node, size_t group) const {
    for (size_t i = group; i < nodes_.size(); ++i) {
      const Node& other = nodes_[i];
      if (other.left.Covers(node.left) &&
          algebra_.Replaces(other.label, node.label, node.front, node.left)) {
        return true;
      }
    }
    return false;
  }

  const Algebra& algebra_;
  double limit_ = 0;
  int32_t best_ = kNone;  // What is behind the first stage of the best pipeline.
  SuffixFront best_front_;
  std::vector<Node> nodes_;                // All that were extended.
  std::vector<std::vector<Node>> levels_;  // By first layer: to be selected from.
};

}  // namespace hapmoe::search

#endif  // HAPMOE_TESTS_BENCH_SAILOR_SUFFIX_PROGRAM_H_
