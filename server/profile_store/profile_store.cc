#include "server/profile_store/profile_store.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/errors/errors.h"
#include "server/profile_store/json_files.h"
#include "server/storage/back_off.h"
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
  HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents,
                          store->storage_->Load(RecordKind::kProfile, 0));
  store->LoadBuiltIn(built_in);
  store->LoadDirectory(store->faults_);
  store->TakeStored(contents, store->faults_);
  store->version_ = std::max<int64_t>(1, contents.version);
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
  const auto place = [this](const std::string& path,
                            const ProfileEntryPtr& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!layers_[kFiles].emplace(ProfileKey(entry->core->name), entry).second) return false;
    files_.emplace(path, entry);
    return true;
  };
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
    if (same) entry = old->second;
    if (entry != nullptr) {
      if (place(path, entry)) continue;
      faults.push_back({path, absl::StrCat("another file holds \"", entry->core->name, "\" too")});
    }
    // What it held before, unless another file took its names.
    Violations taken;
    if (old != before.end() &&
        MakeEntry(old->second->wire, v1::PROFILE_ORIGIN_FILE, version_, taken) != nullptr) {
      place(path, old->second);
    }
  }
}

bool ProfileStore::TakeStored(const RecordContents& contents, std::vector<LoadFault>& faults) {
  faults.insert(faults.end(), contents.faults.begin(), contents.faults.end());
  stored_version_ = contents.version;
  const Layer before = layers_[kStored];
  Layer& stored = layers_[kStored];
  // First what is gone, so that its names are free.
  std::set<std::string> there;
  for (const StoredRecord& record : contents.records) {
    const bool latest = there.insert(record.key).second;
    if (latest && !record.content.has_value()) stored.erase(record.key);
  }
  if (contents.complete) {
    for (auto entry = stored.begin(); entry != stored.end();) {
      entry = there.count(entry->first) > 0 ? std::next(entry) : stored.erase(entry);
    }
  }
  std::string done;  // The key of which a version is in force by now.
  for (const StoredRecord& record : contents.records) {
    if (record.key == done || !record.content.has_value()) continue;
    const std::string source =
        absl::StrCat("stored profile ", record.key, ", version ", record.version);
    const auto held = stored.find(record.key);
    if (held != stored.end() && held->second->version == record.version) {
      done = record.key;
      continue;
    }
    v1::AcceleratorProfile wire;
    if (!wire.ParseFromString(*record.content)) {
      faults.push_back({source, "not a profile"});
      continue;
    }
    Violations violations;
    ProfileEntryPtr entry = MakeEntry(wire, v1::PROFILE_ORIGIN_STORED, record.version, violations);
    if (entry == nullptr) {
      faults.push_back({source, Summary(violations)});
      continue;
    }
    stored.insert_or_assign(record.key, std::move(entry));
    done = record.key;
  }
  return stored != before;
}

absl::Status ProfileStore::RefreshLocked(std::vector<LoadFault>& faults) {
  HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents,
                          storage_->Load(RecordKind::kProfile, stored_version_));
  if (!TakeStored(contents, faults)) return absl::OkStatus();
  version_ = std::max(version_ + 1, stored_version_);
  Publish();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LoadFault>> ProfileStore::Refresh() {
  MutexLock lock(mutex_);
  std::vector<LoadFault> faults;
  HAPMOE_RETURN_IF_ERROR(RefreshLocked(faults));
  return faults;
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

absl::StatusOr<int64_t> ProfileStore::Change(
    absl::FunctionRef<absl::StatusOr<RecordChange>()> make) {
  for (int attempt = 1;; ++attempt) {
    HAPMOE_ASSIGN_OR_RETURN(RecordChange change, make());
    RecordBatch batch;
    batch.kind = RecordKind::kProfile;
    change.version = version_ + 1;
    batch.changes.push_back(std::move(change));
    batch.expected_version = stored_version_;
    absl::StatusOr<int64_t> version = storage_->Apply(batch);
    if (version.ok()) {
      stored_version_ = *version;
      version_ = *version;
      return version;
    }
    if (!absl::IsAborted(version.status()) || attempt == kMostAttempts) {
      return StorageError(version.status());
    }
    BackOff(attempt);
    std::vector<LoadFault> faults;  // Told when they were written.
    if (const absl::Status refreshed = RefreshLocked(faults); !refreshed.ok()) {
      return StorageError(refreshed);
    }
  }
}

absl::StatusOr<int64_t> ProfileStore::Put(const v1::AcceleratorProfile& profile) {
  MutexLock lock(mutex_);
  ProfileEntryPtr entry;
  const auto make = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<RecordChange> {
    Violations violations;
    entry = MakeEntry(profile, v1::PROFILE_ORIGIN_STORED, version_ + 1, violations);
    if (entry == nullptr) return InvalidError(Reason::kProfileInvalid, violations);
    return RecordChange{ProfileKey(entry->core->name), profile.SerializeAsString()};
  };
  HAPMOE_ASSIGN_OR_RETURN(const int64_t version, Change(make));
  layers_[kStored].insert_or_assign(ProfileKey(entry->core->name), entry);
  Publish();
  return version;
}

absl::Status ProfileStore::Delete(absl::string_view accelerator) {
  MutexLock lock(mutex_);
  std::string key;
  const auto make = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<RecordChange> {
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
    key = ProfileKey(entry->core->name);
    return RecordChange{key, std::nullopt};
  };
  HAPMOE_RETURN_IF_ERROR(Change(make).status());
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
