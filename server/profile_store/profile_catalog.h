// All profiles in force at one time, found by name or alias.
#ifndef HAPMOE_SERVER_PROFILE_STORE_PROFILE_CATALOG_H_
#define HAPMOE_SERVER_PROFILE_STORE_PROFILE_CATALOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/profile/accelerator_profile.h"
#include "hapmoe/v1/profile.pb.h"
#include "hapmoe/v1/profiles.pb.h"

namespace hapmoe::server {

// One profile in both its forms. Never changes.
struct ProfileEntry {
  v1::AcceleratorProfile wire;
  std::shared_ptr<const profile::AcceleratorProfile> core;
  int64_t version = 0;
  v1::ProfileOrigin origin = v1::PROFILE_ORIGIN_UNSPECIFIED;
};
using ProfileEntryPtr = std::shared_ptr<const ProfileEntry>;

// What names are compared by: upper and lower case are the same.
std::string ProfileKey(absl::string_view name);

// Immutable: thread safe.
class ProfileCatalog {
 public:
  // No two entries share a name or an alias, ignoring case.
  ProfileCatalog(std::vector<ProfileEntryPtr> entries, int64_t version);

  // By name or alias, ignoring case; null if there is none.
  ProfileEntryPtr Find(absl::string_view accelerator) const;

  // Names of at most `count` profiles whose name or alias comes near, the nearest first.
  std::vector<std::string> Nearest(absl::string_view accelerator, size_t count = 3) const;

  // One page of entries, ordered by key.
  struct Page {
    std::vector<ProfileEntryPtr> entries;
    std::string next_token;  // Empty on the last page.
  };
  // At most `size` entries after those of the page that gave `token`, or from the start if that is
  // empty. Profiles that come or go between two pages neither repeat nor hide others.
  // InvalidArgument: no catalog gave the token.
  absl::StatusOr<Page> List(size_t size, absl::string_view token) const;

  // In the order of keys.
  std::vector<std::string> Names() const;

  size_t size() const { return entries_.size(); }
  int64_t version() const { return version_; }

 private:
  std::map<std::string, ProfileEntryPtr> entries_;  // By the name's key.
  std::map<std::string, ProfileEntryPtr> aliases_;  // By the key of names and aliases.
  const int64_t version_;
};

// Levenshtein's distance: insertions, deletions and replacements from one text to the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_PROFILE_CATALOG_H_
