#include "server/profile_store/profile_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/errors/errors.h"
#include "server/profile_store/json_files.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

// One line for a log.
std::string Summary(const Violations& violations) {
  const Violation& first = violations.front();
  return violations.size() == 1 ? absl::StrCat(first.field, ": ", first.message)
                                : absl::StrCat(first.field, ": ", first.message, " (the first of ",
                                               violations.size(), " faults)");
}

}  // namespace

ProfileStore::ProfileStore(Options options)
    : directory_(std::move(options.directory)),
      storage_(std::move(options.storage)),
      catalog_(std::make_shared<const ProfileCatalog>(std::vector<ProfileEntryPtr>(), 0)) {}

absl::StatusOr<std::unique_ptr<ProfileStore>> ProfileStore::Open(Options options) {
  const std::vector<BuiltInProfile> built_in = std::move(options.built_in);
  std::unique_ptr<ProfileStore> store(new ProfileStore(std::move(options)));
  MutexLock lock(store->mutex_);
  HAPMOE_ASSIGN_OR_RETURN(ProfileStorage::Contents contents, store->storage_->Load());
  store->LoadBuiltIn(built_in);
  store->LoadDirectory(store->faults_);
  store->LoadStored(std::move(contents));
  store->Publish();
  return store;
}

ProfileEntryPtr ProfileStore::MakeEntry(const v1::AcceleratorProfile& wire,
                                        v1::ProfileOrigin origin, int64_t version,
                                        Violations& violations) {
  auto entry = std::make_shared<ProfileEntry>();
  entry->core =
      std::make_shared<const profile::AcceleratorProfile>(ProfileFromWire(wire, violations));
  entry->wire = wire;
  entry->version = version;
  entry->origin = origin;

  const std::string key = ProfileKey(entry->core->name);
  std::map<std::string, std::string> own = {{key, "profile.accelerator"}};
  for (size_t i = 0; i < entry->core->aliases.size(); ++i) {
    own.emplace(ProfileKey(entry->core->aliases[i]), absl::StrCat("profile.aliases[", i, "]"));
  }
  for (const Layer& layer : layers_) {
    for (const auto& [other_key, other] : layer) {
      if (other_key == key) continue;  // Another version of the same profile.
      std::vector<std::string> taken = other->core->aliases;
      taken.push_back(other->core->name);
      for (const std::string& name : taken) {
        const auto clash = own.find(ProfileKey(name));
        if (clash == own.end()) continue;
        violations.push_back(
            {"profile_names_unique", clash->second,
             absl::StrCat("\"", name, "\" already stands for \"", other->core->name, "\".")});
        own.erase(clash);  // Told once, whatever the number of layers.
      }
    }
  }
  return violations.empty() ? entry : nullptr;
}

ProfileEntryPtr ProfileStore::ReadEntry(absl::string_view text, const std::string& source,
                                        v1::ProfileOrigin origin, int64_t version,
                                        std::vector<LoadFault>& faults) {
  v1::AcceleratorProfile wire;
  if (const absl::Status parsed = ParseJson(text, wire); !parsed.ok()) {
    faults.push_back({source, std::string(parsed.message())});
    return nullptr;
  }
  Violations violations;
  ProfileEntryPtr entry = MakeEntry(wire, origin, version, violations);
  if (entry == nullptr) faults.push_back({source, Summary(violations)});
  return entry;
}

void ProfileStore::LoadBuiltIn(absl::Span<const BuiltInProfile> profiles) {
  for (const BuiltInProfile& profile : profiles) {
    ProfileEntryPtr entry = ReadEntry(profile.content, absl::StrCat("built-in ", profile.name),
                                      v1::PROFILE_ORIGIN_BUILT_IN, version_, faults_);
    if (entry != nullptr) layers_[kBuiltIn].emplace(ProfileKey(entry->core->name), entry);
  }
}

void ProfileStore::LoadDirectory(std::vector<LoadFault>& faults) {
  if (directory_.empty()) return;
  const absl::StatusOr<std::vector<std::string>> paths = ListJsonFiles(directory_);
  if (!paths.ok()) {  // All that was read before stays in force.
    faults.push_back({directory_, std::string(paths.status().message())});
    return;
  }
  const std::map<std::string, ProfileEntryPtr> before = std::move(files_);
  files_.clear();
  layers_[kFiles].clear();
  for (const std::string& path : *paths) {
    const auto old = before.find(path);
    const absl::StatusOr<std::string> text = ReadSmallFile(path);
    ProfileEntryPtr entry;
    if (text.ok()) {
      entry = ReadEntry(*text, path, v1::PROFILE_ORIGIN_FILE, version_, faults);
    } else {
      faults.push_back({path, std::string(text.status().message())});
    }
    const bool same =
        entry != nullptr && old != before.end() &&
        google::protobuf::util::MessageDifferencer::Equals(entry->wire, old->second->wire);
    if ((entry == nullptr || same) && old != before.end()) entry = old->second;
    if (entry == nullptr) continue;
    if (!layers_[kFiles].emplace(ProfileKey(entry->core->name), entry).second) {
      faults.push_back({path, absl::StrCat("another file holds \"", entry->core->name, "\" too")});
      continue;
    }
    files_.emplace(path, entry);
  }
}

void ProfileStore::LoadStored(ProfileStorage::Contents contents) {
  faults_.insert(faults_.end(), contents.faults.begin(), contents.faults.end());
  version_ = std::max(version_, contents.version);
  for (const StoredProfile& stored : contents.profiles) {
    Violations violations;
    ProfileEntryPtr entry =
        MakeEntry(stored.profile, v1::PROFILE_ORIGIN_STORED, stored.version, violations);
    if (entry == nullptr) {
      faults_.push_back(
          {absl::StrCat("stored ", stored.profile.accelerator()), Summary(violations)});
    } else {
      layers_[kStored].emplace(ProfileKey(entry->core->name), entry);
    }
  }
}

void ProfileStore::Publish() {
  Layer in_force;
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    in_force.insert(layers_[layer].begin(), layers_[layer].end());  // Keeps what is there.
  }
  std::vector<ProfileEntryPtr> entries;
  for (auto& [key, entry] : in_force) entries.push_back(std::move(entry));
  catalog_.Set(std::make_shared<const ProfileCatalog>(std::move(entries), version_));
}

absl::StatusOr<int64_t> ProfileStore::Put(const v1::AcceleratorProfile& profile) {
  MutexLock lock(mutex_);
  Violations violations;
  ProfileEntryPtr entry = MakeEntry(profile, v1::PROFILE_ORIGIN_STORED, version_ + 1, violations);
  if (entry == nullptr) return InvalidError(Reason::kProfileInvalid, violations);
  if (const absl::Status written = storage_->Write({entry->version, profile}); !written.ok()) {
    return Error(Reason::kStorageFailed, absl::StatusCodeToString(written.code()));
  }
  version_ = entry->version;
  layers_[kStored].insert_or_assign(ProfileKey(entry->core->name), entry);
  Publish();
  return version_;
}

absl::Status ProfileStore::Delete(absl::string_view accelerator) {
  MutexLock lock(mutex_);
  const std::shared_ptr<const ProfileCatalog> catalog = catalog_.Get();
  const ProfileEntryPtr entry = catalog->Find(accelerator);
  if (entry == nullptr) {
    return ProfileNotFoundError({{std::string(accelerator), catalog->Nearest(accelerator)}});
  }
  if (entry->origin != v1::PROFILE_ORIGIN_STORED) {
    return Error(Reason::kProfileBuiltIn,
                 absl::StrCat("\"", entry->core->name, "\" is built in, or read from a file."),
                 {{"accelerator", entry->core->name}});
  }
  const std::string key = ProfileKey(entry->core->name);
  if (const absl::Status removed = storage_->Remove(key, version_ + 1); !removed.ok()) {
    return Error(Reason::kStorageFailed, absl::StatusCodeToString(removed.code()));
  }
  ++version_;
  layers_[kStored].erase(key);
  Publish();
  return absl::OkStatus();
}

std::vector<LoadFault> ProfileStore::ReloadDirectory() {
  MutexLock lock(mutex_);
  std::vector<LoadFault> faults;
  const std::map<std::string, ProfileEntryPtr> before = files_;
  ++version_;
  LoadDirectory(faults);
  if (files_ == before) {
    --version_;  // Nothing changed.
  } else {
    Publish();
  }
  return faults;
}

}  // namespace hapmoe::server
