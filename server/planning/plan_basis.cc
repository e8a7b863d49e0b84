#include "server/planning/plan_basis.h"

#include <algorithm>
#include <utility>

namespace hapmoe::server {

PlanBasis::Type PlanBasis::Find(std::string name, const ProfileView& view) {
  Type type;
  if (const ProfileEntryPtr entry = view.catalog->Find(name); entry != nullptr) {
    type.profile = entry->core;
    if (view.corrections != nullptr) {
      const auto said = view.corrections->types.find(type.profile);
      if (said != view.corrections->types.end()) type.corrected = said->second.corrected;
    }
  }
  type.name = std::move(name);
  return type;
}

PlanBasis::PlanBasis(const v1::Cluster& cluster, const v1::LaunchOptions& launch,
                     const ProfileView& view) {
  types_.reserve(static_cast<size_t>(cluster.pools_size()) +
                 static_cast<size_t>(launch.accelerators_size()));
  for (const v1::Pool& pool : cluster.pools()) types_.push_back(Find(pool.accelerator(), view));
  for (const v1::AcceleratorPlacement& placement : launch.accelerators()) {
    types_.push_back(Find(placement.accelerator(), view));
  }
}

bool PlanBasis::HoldsIn(const ProfileView& view) const {
  return std::all_of(types_.begin(), types_.end(), [&view](const Type& type) {
    const Type now = Find(type.name, view);
    return now.profile == type.profile && now.corrected == type.corrected;
  });
}

bool PlanBasis::operator==(const PlanBasis& other) const {
  return std::equal(types_.begin(), types_.end(), other.types_.begin(), other.types_.end(),
                    [](const Type& a, const Type& b) {
                      return a.name == b.name && a.profile == b.profile &&
                             a.corrected == b.corrected;
                    });
}

size_t PlanBasis::bytes() const {
  size_t bytes = types_.capacity() * sizeof(Type);
  for (const Type& type : types_) bytes += type.name.capacity() + 1;
  return bytes;
}

}  // namespace hapmoe::server
