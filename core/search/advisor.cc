#include "core/search/advisor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {
namespace {

using Kind = Suggestion::Kind;

// The search for a number of nodes doubles this often, then halves the interval.
constexpr int kMaxDoublings = 6;

struct DegreeList {
  const char* name;
  std::vector<int64_t> Constraints::*allowed;
};
constexpr DegreeList kDegreeLists[] = {
    {"tp", &Constraints::tp},
    {"cp", &Constraints::cp},
    {"ep", &Constraints::ep},
    {"etp", &Constraints::etp},
    {"dp", &Constraints::dp},
    {"pp", &Constraints::pp},
    {"vp", &Constraints::virtual_stages},
};

const DegreeList& ListOf(const std::string& name) {
  return *std::find_if(std::begin(kDegreeLists), std::end(kDegreeLists),
                       [&](const DegreeList& list) { return name == list.name; });
}

// Whether plans of a candidate can have this value.
bool Has(const Candidate& candidate, const std::string& name, int64_t value, bool may_idle) {
  const plan::Degrees& degrees = candidate.kinds.front().degrees;
  if (name == "tp") return degrees.tp == value;
  if (name == "cp") return degrees.cp == value;
  if (name == "ep") return degrees.ep == value;
  if (name == "etp") return degrees.etp == value;
  if (name == "dp") return degrees.dp == value;
  if (name == "vp") return candidate.virtual_stages == value;
  return may_idle ? candidate.max_stages() >= value : candidate.max_stages() == value;
}

int64_t SmallestMicroBatch(const SearchRequest& request) {
  const std::vector<int64_t> allowed = AllowedMicroBatches(request);
  return *std::min_element(allowed.begin(), allowed.end());
}

// They need no less memory (see Fitting), and there are many.
void LeaveOutVirtualStages(Constraints& constraints) {
  if (Allows(constraints.virtual_stages, 1)) constraints.virtual_stages = {1};
}

std::string Sentence(const Suggestion& suggestion, const SearchRequest& request) {
  const int64_t amount = suggestion.amount;
  const std::string& subject = suggestion.subject;
  switch (suggestion.kind) {
    case Kind::kAllowIdle:
      return "Let accelerators idle (--allow-idle).";
    case Kind::kChooseRecompute:
      return "Let the planner choose the recomputation (leave out --keep-recompute).";
    case Kind::kMicroBatch:
      return absl::StrCat("Allow a micro-batch of ", amount, amount == 1 ? " sample" : " samples",
                          " (--micro-batch-size ", amount, ").");
    case Kind::kDegree:
      if (amount == 0) return absl::StrCat("Allow any ", subject, " (leave out --", subject, ").");
      return absl::StrCat("Allow ", subject, " ", amount, " (--", subject, " ",
                          absl::StrJoin(request.constraints.*ListOf(subject).allowed, ","), ",",
                          amount, ").");
    case Kind::kShardOptimizer:
      return "Shard the optimizer states (--use-distributed-optimizer).";
    case Kind::kOffloadOptimizer:
      return absl::StrFormat(
          "Keep %d %% of the optimizer states in host memory (--optimizer-cpu-offload "
          "--optimizer-offload-fraction %.2f --use-precision-aware-optimizer%s).",
          amount, static_cast<double>(amount) / 100,
          request.problem.training.optimizer.distributed ? "" : " --use-distributed-optimizer");
    case Kind::kAddNodes:
      return absl::StrCat("Add ", amount, amount == 1 ? " node" : " nodes", " to pool ", subject,
                          ".");
  }
  return "";
}

}  // namespace

void Apply(const Suggestion& suggestion, SearchRequest& request) {
  Constraints& constraints = request.constraints;
  model::Optimizer& optimizer = request.problem.training.optimizer;
  switch (suggestion.kind) {
    case Kind::kAllowIdle:
      constraints.allow_idle_accelerators = true;
      return;
    case Kind::kChooseRecompute:
      constraints.keep_recompute = false;
      return;
    case Kind::kMicroBatch:
      constraints.micro_batch = AllowedMicroBatches(request);
      constraints.micro_batch.push_back(suggestion.amount);
      return;
    case Kind::kDegree: {
      std::vector<int64_t>& allowed = constraints.*ListOf(suggestion.subject).allowed;
      if (suggestion.amount == 0) {
        allowed.clear();
      } else {
        allowed.push_back(suggestion.amount);
      }
      return;
    }
    case Kind::kShardOptimizer:
      optimizer.distributed = true;
      return;
    case Kind::kOffloadOptimizer:
      // The engine offloads with this optimizer alone, which shards.
      optimizer.distributed = true;
      optimizer.precision_aware = true;
      optimizer.offload_ratio = static_cast<double>(suggestion.amount) / 100;
      return;
    case Kind::kAddNodes:
      for (cluster::Pool& pool : request.problem.cluster.pools) {
        if (pool.name == suggestion.subject) pool.nodes += suggestion.amount;
      }
      return;
  }
}

Fitting& Advisor::FittingOf(const SearchRequest& request) {
  const bool freed = request_.constraints.keep_recompute && !request.constraints.keep_recompute;
  if (freed && free_ == nullptr) {
    SearchRequest changed = request_;
    changed.constraints.keep_recompute = false;
    free_ = std::make_unique<Fitting>(changed);
    free_->SetOptimizer(optimizer_);
  }
  const model::Optimizer& optimizer = request.problem.training.optimizer;
  if (optimizer.distributed != optimizer_.distributed ||
      optimizer.precision_aware != optimizer_.precision_aware ||
      optimizer.offload_ratio != optimizer_.offload_ratio) {
    optimizer_ = optimizer;
    fitting_.SetOptimizer(optimizer);
    if (free_ != nullptr) free_->SetOptimizer(optimizer);
  }
  return freed ? *free_ : fitting_;
}

bool Advisor::Feasible(const std::vector<Suggestion>& changes) {
  SearchRequest changed = request_;
  for (const Suggestion& change : changes) Apply(change, changed);
  LeaveOutVirtualStages(changed.constraints);
  Fitting& fitting = FittingOf(changed);
  const Space space = EnumerateSpace(changed, interrupter_);
  return std::any_of(
      space.candidates.begin(), space.candidates.end(), [&](const Candidate& candidate) {
        return !interrupter_.tripped() && fitting.Within(candidate, changed.constraints, 0);
      });
}

std::vector<Suggestion> Advisor::Relaxations() const {
  std::vector<Suggestion> all;
  const Constraints& constraints = request_.constraints;
  const model::Optimizer& optimizer = request_.problem.training.optimizer;
  if (!constraints.allow_idle_accelerators) all.push_back({Kind::kAllowIdle, 0, "", ""});
  if (constraints.keep_recompute) all.push_back({Kind::kChooseRecompute, 0, "", ""});
  if (SmallestMicroBatch(request_) > 1) all.push_back({Kind::kMicroBatch, 1, "", ""});
  for (const DegreeList& list : kDegreeLists) {
    if (!(constraints.*list.allowed).empty()) all.push_back({Kind::kDegree, 0, list.name, ""});
  }
  if (!optimizer.distributed) all.push_back({Kind::kShardOptimizer, 0, "", ""});
  // The engine offloads no other.
  if (optimizer.name == "adam" && optimizer.offload_ratio < 1) {
    all.push_back({Kind::kOffloadOptimizer, 100, "", ""});
  }
  return all;
}

std::optional<Suggestion> Advisor::NearestDegree(const std::string& name) {
  const std::vector<int64_t>& allowed = request_.constraints.*ListOf(name).allowed;
  SearchRequest changed = request_;
  (changed.constraints.*ListOf(name).allowed).clear();
  LeaveOutVirtualStages(changed.constraints);
  Fitting& fitting = FittingOf(changed);
  const Space space = EnumerateSpace(changed, interrupter_);
  std::vector<std::pair<double, int64_t>> values;
  for (int64_t value = 1; value <= request_.problem.cluster.accelerators(); ++value) {
    double distance = std::numeric_limits<double>::infinity();
    for (const int64_t one : allowed) {
      const double ratio = static_cast<double>(value) / static_cast<double>(one);
      distance = std::min(distance, std::abs(std::log(ratio)));
    }
    if (distance > 0) values.emplace_back(distance, value);
  }
  std::stable_sort(values.begin(), values.end());
  for (const auto& [distance, value] : values) {
    changed.constraints.*ListOf(name).allowed = {value};
    for (const Candidate& candidate : space.candidates) {
      if (interrupter_.tripped()) return std::nullopt;
      if (Has(candidate, name, value, changed.constraints.allow_idle_accelerators) &&
          fitting.Within(candidate, changed.constraints, 0)) {
        return Suggestion{Kind::kDegree, value, name, ""};
      }
    }
  }
  return std::nullopt;
}

Suggestion Advisor::Least(Suggestion change, int64_t fails, const std::vector<Suggestion>& others) {
  int64_t fits = change.amount;
  std::vector<Suggestion> changes = others;
  changes.push_back(change);
  // Feasibility need not grow with every node, since degrees must divide; the answer is checked
  // itself, and so is one less.
  while (fits - fails > 1 && !interrupter_.tripped()) {
    changes.back().amount = (fits + fails) / 2;
    (Feasible(changes) ? fits : fails) = changes.back().amount;
  }
  change.amount = fits;
  return change;
}

std::optional<Suggestion> Advisor::FewestNodes(const std::string& pool,
                                               const std::vector<Suggestion>& others) {
  std::vector<Suggestion> changes = others;
  changes.push_back({Kind::kAddNodes, 1, pool, ""});
  int64_t fails = 0;
  for (int i = 0; i < kMaxDoublings; ++i) {
    if (Feasible(changes)) return Least(changes.back(), fails, others);
    fails = changes.back().amount;
    changes.back().amount *= 2;
  }
  return std::nullopt;
}

std::vector<Suggestion> Advisor::Checked(std::vector<Suggestion> suggestions) {
  FittingOf(request_);  // Gives the optimizer back.
  // Where a check was cut short it said no.
  if (interrupter_.tripped()) return {};
  for (Suggestion& suggestion : suggestions) suggestion.sentence = Sentence(suggestion, request_);
  return suggestions;
}

// Below all that are allowed. Those that do not divide the global batch cannot be used, unless the
// job has it rounded: then powers of 2 are asked for.
std::vector<int64_t> Advisor::SmallerMicroBatches() const {
  const int64_t batch = request_.problem.training.global_batch;
  std::vector<int64_t> sizes = Divisors(batch);
  if (request_.facts.decrease_batch) {
    sizes.clear();
    for (int64_t size = 1; size <= batch; size *= 2) sizes.push_back(size);
  }
  std::erase_if(sizes, [&](int64_t size) { return size >= SmallestMicroBatch(request_); });
  return sizes;
}

std::vector<Suggestion> Advisor::Alone() {
  const int64_t offloaded =
      static_cast<int64_t>(std::floor(request_.problem.training.optimizer.offload_ratio * 100));
  std::vector<Suggestion> found;
  for (Suggestion& change : Relaxations()) {
    if (interrupter_.tripped()) return {};
    if (change.kind == Kind::kDegree) {
      const std::optional<Suggestion> nearest = NearestDegree(change.subject);
      if (nearest.has_value()) found.push_back(*nearest);
      continue;
    }
    if (change.kind == Kind::kMicroBatch) {
      // The largest that is enough.
      const std::vector<int64_t> sizes = SmallerMicroBatches();
      const auto enough = std::find_if(sizes.rbegin(), sizes.rend(), [&](int64_t size) {
        change.amount = size;
        return Feasible({change});
      });
      if (enough != sizes.rend()) found.push_back(change);
      continue;
    }
    // Offloading shards too, which may be enough.
    const bool sharded = !found.empty() && found.back().kind == Kind::kShardOptimizer;
    if (change.kind == Kind::kOffloadOptimizer && sharded) continue;
    if (!Feasible({change})) continue;
    found.push_back(change.kind == Kind::kOffloadOptimizer ? Least(change, offloaded, {}) : change);
  }
  for (const cluster::Pool& pool : request_.problem.cluster.pools) {
    const std::optional<Suggestion> nodes = FewestNodes(pool.name, {});
    if (nodes.has_value()) found.push_back(*nodes);
  }
  return Checked(std::move(found));
}

std::vector<Suggestion> Advisor::Together() {
  std::vector<Suggestion> parts = Relaxations();
  std::optional<Suggestion> nodes;
  if (!Feasible(parts)) {
    // Even then more nodes are needed: of the pool that needs fewest.
    for (const cluster::Pool& pool : request_.problem.cluster.pools) {
      const std::optional<Suggestion> fewest = FewestNodes(pool.name, parts);
      if (fewest.has_value() && (!nodes.has_value() || fewest->amount < nodes->amount)) {
        nodes = fewest;
      }
    }
    if (!nodes.has_value()) return Checked({});
    parts.push_back(*nodes);
  }
  // What costs most is left out first, if it can be.
  for (size_t i = parts.size(); i-- > 0;) {
    std::vector<Suggestion> others = parts;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (Feasible(others)) {
      parts = std::move(others);
    } else if (parts[i].kind == Kind::kOffloadOptimizer) {
      parts[i] = Least(parts[i], 0, others);
    }
  }
  return Checked(std::move(parts));
}

}  // namespace hapmoe::search
