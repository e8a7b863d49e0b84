// The store of accelerator profiles: built-in ones, files of a directory over them, and those that
// callers put over both.
#ifndef HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORE_H_
#define HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/mutex.h"
#include "core/base/violation.h"
#include "server/concurrency/snapshot.h"
#include "server/profile_store/profile_catalog.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

// A JSON profile compiled into the program.
struct BuiltInProfile {
  absl::string_view name;  // Of the file.
  absl::string_view content;
};

// Where a profile of one name is known from several places, the one put by a caller is in force,
// then the one of the directory, then the built-in one. Names and aliases are unique over all
// places, so that what shows when a profile is deleted never clashes.
//
// Several servers may share a storage: a change is made on top of all that others made, or not at
// all, and Refresh takes in theirs.
//
// Thread safe. Reading takes an immutable catalog and never waits for a writer. Put, Delete,
// Refresh and ReloadDirectory may block on the storage: they are not for gRPC's threads.
class ProfileStore {
 public:
  struct Options {
    std::vector<BuiltInProfile> built_in;
    std::string directory;                   // Of profile files; empty for none.
    std::shared_ptr<RecordStorage> storage;  // Never null.
  };

  // Profiles that cannot be read or break a rule are left out and reported in faults(). Fails only
  // if the storage cannot be read at all.
  static absl::StatusOr<std::unique_ptr<ProfileStore>> Open(Options options);

  std::shared_ptr<const ProfileCatalog> catalog() const { return catalog_.Get(); }

  // Adds or replaces; returns the version given. Errors as PutProfile documents, with details.
  absl::StatusOr<int64_t> Put(const v1::AcceleratorProfile& profile);

  // Deletes what Put stored. Errors as DeleteProfile documents, with details.
  absl::Status Delete(absl::string_view accelerator);

  // Reads the directory again. A file that is bad now keeps the profile that it held before; one
  // that is gone takes its profile with it. Returns what was refused.
  std::vector<LoadFault> ReloadDirectory();

  // Takes in what other servers stored. A profile that cannot be used keeps the one before. Returns
  // what was refused; an error if the storage cannot be read, and then all stays as it is.
  absl::StatusOr<std::vector<LoadFault>> Refresh();

  // What was refused when the store was opened.
  const std::vector<LoadFault>& faults() const { return faults_; }

 private:
  using Layer = std::map<std::string, ProfileEntryPtr>;  // By key.
  enum LayerIndex { kBuiltIn, kFiles, kStored, kLayers };

  explicit ProfileStore(Options options);

  // The entry of a profile, or its faults, among which clashes of names with other profiles.
  ProfileEntryPtr MakeEntry(const v1::AcceleratorProfile& wire, v1::ProfileOrigin origin,
                            int64_t version, Violations& violations)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same from a JSON text; faults are reported as those of `source`.
  ProfileEntryPtr ReadEntry(absl::string_view text, const std::string& source,
                            v1::ProfileOrigin origin, int64_t version,
                            std::vector<LoadFault>& faults) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadBuiltIn(absl::Span<const BuiltInProfile> profiles) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadDirectory(std::vector<LoadFault>& faults) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether anything changed.
  bool TakeStored(const RecordContents& contents, std::vector<LoadFault>& faults)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefreshLocked(std::vector<LoadFault>& faults) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes one change on top of all that is stored: what `make` says, again if another server was
  // faster. `make` ends it with an error. Returns the version given.
  absl::StatusOr<int64_t> Change(absl::FunctionRef<absl::StatusOr<RecordChange>()> make)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  std::vector<LoadFault> faults_;  // Not changed after Open.

  mutable Mutex mutex_;  // One writer at a time, through its write to the storage.
  const std::shared_ptr<RecordStorage> storage_;
  Layer layers_[kLayers] ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ProfileEntryPtr> files_ ABSL_GUARDED_BY(mutex_);  // By path.
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 1;                           // Of the catalog.
  int64_t stored_version_ ABSL_GUARDED_BY(mutex_) = 0;  // Of what the storage held when last read.

  Snapshot<ProfileCatalog> catalog_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORE_H_
