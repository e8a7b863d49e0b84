// What a plan rests on beside its request: the profiles of its accelerator types, as reports
// correct them.
#ifndef HAPMOE_SERVER_PLANNING_PLAN_BASIS_H_
#define HAPMOE_SERVER_PLANNING_PLAN_BASIS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/profile/accelerator_profile.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/corrections.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// The profiles in force, and what reports say of them, at one time. Immutable.
struct ProfileView {
  std::shared_ptr<const ProfileCatalog> catalog;         // Never null.
  std::shared_ptr<const CorrectedProfiles> corrections;  // Null: there is nobody to ask.

  bool operator==(const ProfileView& other) const {
    return catalog == other.catalog && corrections == other.corrections;
  }
};

// Profiles never change, so that one is known by its address; a basis keeps those it names alive.
// Immutable: thread safe.
class PlanBasis {
 public:
  PlanBasis() = default;
  // Of plans for a cluster, started by `launch`: every name of an accelerator type in them counts.
  PlanBasis(const v1::Cluster& cluster, const v1::LaunchOptions& launch, const ProfileView& view);

  // Whether a plan made now would rest on the same.
  bool HoldsIn(const ProfileView& view) const;

  bool operator==(const PlanBasis& other) const;

  // Memory that it takes beside itself, without the profiles.
  size_t bytes() const;

 private:
  using Profile = std::shared_ptr<const profile::AcceleratorProfile>;
  struct Type {
    std::string name;   // As the request writes it.
    Profile profile;    // Null: there is none of this name.
    Profile corrected;  // Null: no report says anything of it.
  };
  static Type Find(std::string name, const ProfileView& view);

  std::vector<Type> types_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_PLAN_BASIS_H_
