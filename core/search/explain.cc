#include "core/search/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Times that differ by less are told as equal, and parts of a difference below it are left out.
constexpr double kNegligibleRatio = 0.01;

struct Term {
  const char* name;
  double cost::TimeBreakdown::*seconds;
};
constexpr Term kTerms[] = {
    {"compute", &cost::TimeBreakdown::compute_seconds},
    {"recompute", &cost::TimeBreakdown::recompute_seconds},
    {"tensor parallel", &cost::TimeBreakdown::tensor_parallel_seconds},
    {"context parallel", &cost::TimeBreakdown::context_parallel_seconds},
    {"expert parallel", &cost::TimeBreakdown::expert_parallel_seconds},
    {"pipeline transfers", &cost::TimeBreakdown::pipeline_seconds},
    {"host launches", &cost::TimeBreakdown::launch_seconds},
    {"bubble", &cost::TimeBreakdown::bubble_seconds},
    {"gradient sync", &cost::TimeBreakdown::gradient_sync_seconds},
    {"optimizer", &cost::TimeBreakdown::optimizer_seconds},
};

struct Degree {
  const char* name;
  int64_t plan::Degrees::*value;
};
constexpr Degree kDegrees[] = {{"tp", &plan::Degrees::tp},
                               {"cp", &plan::Degrees::cp},
                               {"dp", &plan::Degrees::dp},
                               {"ep", &plan::Degrees::ep},
                               {"etp", &plan::Degrees::etp}};

// Something that two plans have, as text.
struct Trait {
  std::string name;  // "tp"
  std::string of_plan;
  std::string of_other;
};

std::string SecondsText(double seconds) {
  if (seconds == 0) return "none";
  return std::abs(seconds) < 1 ? absl::StrFormat("%.4g ms", seconds * 1e3)
                               : absl::StrFormat("%.4g s", seconds);
}

// A stage with its mesh and its prediction.
struct StageAt {
  int64_t index;
  const plan::Mesh* mesh;
  const plan::Stage* stage;
  const cost::StagePrediction* prediction;
};

std::vector<StageAt> StagesOf(const Costed& costed) {
  std::vector<StageAt> stages;
  for (const plan::Mesh& mesh : costed.plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      const size_t index = stages.size();
      stages.push_back(
          {static_cast<int64_t>(index), &mesh, &stage, &costed.prediction.stages[index]});
    }
  }
  return stages;
}

std::string DegreeValues(const plan::Plan& plan, int64_t plan::Degrees::*value) {
  std::vector<int64_t> values;
  for (const plan::Mesh& mesh : plan.meshes) values.push_back(mesh.degrees.*value);
  const bool same =
      std::all_of(values.begin(), values.end(), [&](int64_t one) { return one == values.front(); });
  return same ? absl::StrCat(values.front()) : absl::StrJoin(values, "|");
}

std::string LayersText(const plan::Plan& plan) {
  std::vector<int64_t> layers;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) layers.push_back(stage.layers());
  }
  return absl::StrJoin(layers, " ");
}

std::string RecomputeText(const plan::Plan& plan) {
  using Granularity = model::Recompute::Granularity;
  int64_t full = 0;
  int64_t selective = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      full += stage.recompute.granularity == Granularity::kFull ? 1 : 0;
      selective += stage.recompute.granularity == Granularity::kSelective ? 1 : 0;
    }
  }
  std::vector<std::string> parts;
  if (full > 0) parts.push_back(absl::StrCat("full on ", full));
  if (selective > 0) parts.push_back(absl::StrCat("selective on ", selective));
  if (parts.empty()) return "none";
  return absl::StrCat(absl::StrJoin(parts, " and "), " of ", plan.pipeline_stages(), " stages");
}

// Whether ranks send tokens to each other's experts; without experts all degrees of theirs are 1 or
// move nothing.
bool Dispatches(const plan::Plan& plan) {
  return std::any_of(plan.meshes.begin(), plan.meshes.end(),
                     [](const plan::Mesh& mesh) { return mesh.degrees.dispatch_ranks() > 1; });
}

// Degrees, batch and accelerators that differ. `own`: the job's dispatcher.
std::vector<Trait> DifferentTraits(const plan::Plan& plan, const plan::Plan& other,
                                   model::Dispatcher own) {
  std::vector<Trait> traits;
  for (const Degree& degree : kDegrees) {
    traits.push_back(
        {degree.name, DegreeValues(plan, degree.value), DegreeValues(other, degree.value)});
  }
  const auto add = [&](const char* name, int64_t value, int64_t of_other) {
    traits.push_back({name, absl::StrCat(value), absl::StrCat(of_other)});
  };
  add("pp", plan.pipeline_stages(), other.pipeline_stages());
  add("virtual stages", plan.virtual_stages(), other.virtual_stages());
  add("micro-batch", plan.micro_batch, other.micro_batch);
  if (Dispatches(plan) && Dispatches(other)) {
    const auto dispatcher = [&](const plan::Plan& of) {
      return model::DispatcherName(of.dispatcher.value_or(own));
    };
    traits.push_back({"dispatcher", dispatcher(plan), dispatcher(other)});
  }
  add("accelerators", plan.world_size(), other.world_size());
  std::erase_if(traits, [](const Trait& trait) { return trait.of_plan == trait.of_other; });
  return traits;
}

// How many stages each mesh puts on which pool.
std::vector<std::pair<int64_t, size_t>> Placement(const plan::Plan& plan) {
  std::vector<std::pair<int64_t, size_t>> runs;
  for (const plan::Mesh& mesh : plan.meshes) {
    if (!runs.empty() && runs.back().first == mesh.pool) {
      runs.back().second += mesh.stages.size();
    } else {
      runs.emplace_back(mesh.pool, mesh.stages.size());
    }
  }
  return runs;
}

// Writes the sentences of one comparison.
class Explainer {
 public:
  Explainer(const cost::Problem& problem, const Costed& best, const Costed& given)
      : problem_(problem), best_(best), given_(given) {}

  Explanation Run() {
    for (const Term& term : kTerms) {
      result_.terms.push_back(
          {term.name, best_.prediction.time.*term.seconds, given_.prediction.time.*term.seconds});
    }
    Say(Misfit());
    Say(Times());
    Say(Terms());
    Say(Degrees());
    Say(Places());
    Say(Layers());
    Say(Recomputation());
    Say(Slowest());
    Say(Memory());
    return std::move(result_);
  }

 private:
  void Say(std::string sentence) {
    if (!sentence.empty()) result_.sentences.push_back(std::move(sentence));
  }

  double best_seconds() const { return best_.prediction.iteration_seconds; }
  double given_seconds() const { return given_.prediction.iteration_seconds; }
  double excess() const { return given_seconds() - best_seconds(); }
  bool equal() const { return std::abs(excess()) < kNegligibleRatio * best_seconds(); }

  std::string Times() const {
    const std::string both =
        absl::StrCat("An iteration takes ", SecondsText(best_seconds()), " by the best plan and ",
                     SecondsText(given_seconds()), " by the given layout");
    if (equal()) return absl::StrCat(both, ": as good as equal.");
    if (excess() > 0) {
      return absl::StrCat(both, ": ", SecondsText(excess()), " more, ",
                          absl::StrFormat("%.2f times as long.", given_seconds() / best_seconds()));
    }
    return absl::StrCat(
        both, ": ", SecondsText(-excess()), " less. ",
        given_.prediction.fits()
            ? "The layout lies outside the space that was searched, or in the gap of the search."
            : "It is no choice, for it does not fit.");
  }

  std::string Terms() const {
    if (equal()) return "";
    std::vector<TermDifference> sorted = result_.terms;
    const auto difference = [](const TermDifference& term) {
      return term.given_seconds - term.best_seconds;
    };
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const TermDifference& a, const TermDifference& b) {
                       return std::abs(difference(a)) > std::abs(difference(b));
                     });
    std::vector<std::string> more;
    std::vector<std::string> less;
    for (const TermDifference& term : sorted) {
      if (std::abs(difference(term)) < kNegligibleRatio * std::abs(excess())) continue;
      (difference(term) > 0 ? more : less)
          .push_back(absl::StrCat(term.term, " by ", SecondsText(std::abs(difference(term))), " (",
                                  SecondsText(term.given_seconds), " against ",
                                  SecondsText(term.best_seconds), ")"));
    }
    std::vector<std::string> parts;
    if (!more.empty()) parts.push_back(absl::StrCat("longer in ", absl::StrJoin(more, ", ")));
    if (!less.empty()) parts.push_back(absl::StrCat("shorter in ", absl::StrJoin(less, ", ")));
    return absl::StrCat("On the stages that are busy longest (stage ", given_.prediction.time.stage,
                        " of the layout, stage ", best_.prediction.time.stage,
                        " of the best plan) the layout is ", absl::StrJoin(parts, "; "), ".");
  }

  std::string Degrees() const {
    std::vector<std::string> best;
    std::vector<std::string> given;
    for (const Trait& trait :
         DifferentTraits(best_.plan, given_.plan, problem_.training.dispatcher)) {
      best.push_back(absl::StrCat(trait.name, " ", trait.of_plan));
      given.push_back(absl::StrCat(trait.name, " ", trait.of_other));
    }
    if (best.empty()) return "Both have the same degrees and micro-batch.";
    return absl::StrCat("The best plan has ", absl::StrJoin(best, ", "), "; the layout has ",
                        absl::StrJoin(given, ", "), ".");
  }

  std::string PlaceText(const plan::Plan& plan) const {
    std::vector<std::string> parts;
    for (const auto& [pool, stages] : Placement(plan)) {
      parts.push_back(absl::StrCat(stages, stages == 1 ? " stage on " : " stages on ",
                                   problem_.cluster.pools[static_cast<size_t>(pool)].name));
    }
    return absl::StrJoin(parts, ", ");
  }

  std::string Places() const {
    if (problem_.cluster.pools.size() < 2 || Placement(best_.plan) == Placement(given_.plan)) {
      return "";
    }
    return absl::StrCat("In pipeline order the best plan has ", PlaceText(best_.plan),
                        "; the layout has ", PlaceText(given_.plan), ".");
  }

  std::string Layers() const {
    const std::string best = LayersText(best_.plan);
    const std::string given = LayersText(given_.plan);
    if (best == given) return absl::StrCat("Layers by stage: ", best, " in both.");
    return absl::StrCat("Layers by stage: ", best, " in the best plan, ", given, " in the layout.");
  }

  std::string Recomputation() const {
    const std::string best = RecomputeText(best_.plan);
    const std::string given = RecomputeText(given_.plan);
    if (best == given) return "";
    return absl::StrCat("Recomputation: ", best, " in the best plan, ", given, " in the layout.");
  }

  std::string StageName(const StageAt& at) const {
    const auto pool = static_cast<size_t>(at.mesh->pool);
    return absl::StrCat("stage ", at.index, " on ", problem_.profiles[pool]->name);
  }

  std::string SlowestText(const Costed& costed) const {
    const std::vector<StageAt> stages = StagesOf(costed);
    const auto seconds = [](const StageAt& at) {
      return at.prediction->forward_seconds + at.prediction->backward_seconds;
    };
    const StageAt& slowest = *std::max_element(
        stages.begin(), stages.end(),
        [&](const StageAt& a, const StageAt& b) { return seconds(a) < seconds(b); });
    const int64_t layers = slowest.stage->layers();
    return absl::StrCat(
        StageName(slowest), " with ", layers, layers == 1 ? " layer, " : " layers, ",
        SecondsText(seconds(slowest)), " for ",
        costed.plan.micro_batches == 1
            ? "its one micro-batch"
            : absl::StrCat("each of ", costed.plan.micro_batches, " micro-batches"));
  }

  // A figure of both, told once where it is the same.
  static std::string Both(const char* what, const std::string& best, const std::string& given) {
    if (best == given) return absl::StrCat("The ", what, " stage of both is ", best, ".");
    return absl::StrCat("The ", what, " stage of the best plan is ", best, "; of the layout ",
                        given, ".");
  }

  std::string Slowest() const { return Both("slowest", SlowestText(best_), SlowestText(given_)); }

  std::string FullestText(const Costed& costed) const {
    const std::vector<StageAt> stages = StagesOf(costed);
    const auto fill = [](const StageAt& at) {
      return at.prediction->memory.peak_bytes() / at.prediction->memory.budget_bytes;
    };
    const StageAt& fullest =
        *std::max_element(stages.begin(), stages.end(),
                          [&](const StageAt& a, const StageAt& b) { return fill(a) < fill(b); });
    const cost::MemoryBreakdown& memory = fullest.prediction->memory;
    return absl::StrFormat("%s with %.2f of %.2f GiB", StageName(fullest),
                           memory.peak_bytes() / kGiB, memory.budget_bytes / kGiB);
  }

  std::string Memory() const { return Both("fullest", FullestText(best_), FullestText(given_)); }

  std::string Misfit() const {
    const StageAt* worst = nullptr;
    int64_t misfits = 0;
    const std::vector<StageAt> stages = StagesOf(given_);
    const auto lacks = [](const StageAt& at) { return at.prediction->memory.short_bytes(); };
    for (const StageAt& at : stages) {
      if (at.prediction->memory.fits()) continue;
      ++misfits;
      if (worst == nullptr || lacks(at) > lacks(*worst)) worst = &at;
    }
    if (worst == nullptr) return "";
    return absl::StrFormat(
        "The layout does not fit: %s lacks %.2f GiB%s%s.", StageName(*worst), lacks(*worst) / kGiB,
        worst->prediction->memory.host_binds() ? " of host memory for each rank" : "",
        misfits == 1 ? "" : absl::StrFormat(", the most of %d stages that lack memory", misfits));
  }

  const cost::Problem& problem_;
  const Costed& best_;
  const Costed& given_;
  Explanation result_;
};

}  // namespace

Explanation Explain(const cost::Problem& problem, const Costed& best, const Costed& given) {
  return Explainer(problem, best, given).Run();
}

std::string KindOf(const cost::Problem& problem, const plan::Plan& plan, const plan::Plan& other) {
  std::vector<std::string> parts;
  for (const Trait& trait : DifferentTraits(plan, other, problem.training.dispatcher)) {
    if (trait.name == "pp") {
      parts.push_back(absl::StrCat(trait.of_plan, trait.of_plan == "1" ? " stage" : " stages",
                                   " instead of ", trait.of_other));
    } else {
      parts.push_back(absl::StrCat(trait.name, " ", trait.of_plan, " instead of ", trait.of_other));
    }
  }
  if (parts.empty() && Placement(plan) != Placement(other)) parts.push_back("other pools in turn");
  if (parts.empty()) {
    const std::pair<std::string, std::string> layers = {LayersText(plan), LayersText(other)};
    if (layers.first != layers.second) {
      parts.push_back(absl::StrCat("layers ", layers.first, " instead of ", layers.second));
    }
    const std::pair<std::string, std::string> recompute = {RecomputeText(plan),
                                                           RecomputeText(other)};
    if (recompute.first != recompute.second) {
      parts.push_back(
          absl::StrCat("recomputation ", recompute.first, " instead of ", recompute.second));
    }
  }
  return parts.empty() ? "the same layout" : absl::StrJoin(parts, ", ");
}

}  // namespace hapmoe::search
