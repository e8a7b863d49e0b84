#include "core/search/alternatives.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hapmoe::search {
namespace {

constexpr size_t kMost = 3;

bool SameKind(const plan::Plan& a, const plan::Plan& b) {
  if (a.pipeline_stages() != b.pipeline_stages() ||
      (a.virtual_stages() > 1) != (b.virtual_stages() > 1) || a.micro_batch != b.micro_batch ||
      a.dispatcher != b.dispatcher || a.meshes.size() != b.meshes.size()) {
    return false;
  }
  for (size_t i = 0; i < a.meshes.size(); ++i) {
    if (!(a.meshes[i].degrees == b.meshes[i].degrees)) return false;
  }
  return true;
}

bool Faster(const Costed& a, const Costed& b) {
  return a.prediction.iteration_seconds < b.prediction.iteration_seconds;
}

}  // namespace

void Alternatives::Note(Costed plan) {
  const auto same = std::find_if(plans_.begin(), plans_.end(), [&](const Costed& other) {
    return SameKind(other.plan, plan.plan);
  });
  if (same == plans_.end()) {
    plans_.push_back(std::move(plan));
  } else if (Faster(plan, *same)) {
    *same = std::move(plan);
  }
  std::stable_sort(plans_.begin(), plans_.end(), Faster);
  // One more than are shown: one of them may be of the best plan's kind.
  if (plans_.size() > kMost + 1) plans_.pop_back();
}

std::vector<Costed> Alternatives::Beside(const plan::Plan& best) && {
  std::erase_if(plans_, [&](const Costed& plan) { return SameKind(plan.plan, best); });
  if (plans_.size() > kMost) plans_.pop_back();
  return std::move(plans_);
}

}  // namespace hapmoe::search
