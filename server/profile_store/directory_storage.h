// Stored profiles as JSON files in a directory, written so that a crash leaves no half of one.
#ifndef HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_STORAGE_H_
#define HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_STORAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/profile_store/profile_storage.h"

namespace hapmoe::server {

// DIR/profiles/<key>.json holds the JSON form of GetProfileResponse, DIR/profiles/.version the
// highest version that a deletion gave, DIR/lock a lock that keeps a second server out.
//
// Called by one thread at a time. A write costs two fsync.
class DirectoryProfileStorage : public ProfileStorage {
 public:
  // Creates what is missing. FailedPrecondition: another process uses the directory.
  static absl::StatusOr<std::unique_ptr<DirectoryProfileStorage>> Open(
      const std::string& directory);
  ~DirectoryProfileStorage() override;

  absl::StatusOr<Contents> Load() override;
  absl::Status Write(const StoredProfile& stored) override;
  absl::Status Remove(const std::string& key, int64_t version) override;

 private:
  DirectoryProfileStorage(std::string directory, int lock_file)
      : directory_(std::move(directory)), lock_file_(lock_file) {}

  const std::string directory_;  // DIR/profiles.
  const int lock_file_;
};

// The name of a key's file: letters and digits stand for themselves, the rest as %XX.
std::string ProfileFileName(absl::string_view key);

// Replaces a file as a whole: afterwards, and after a crash at any time, it holds the old content
// or the new. The folder must exist.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// Removes a file for good; one that is not there is no error.
absl::Status RemoveFile(const std::string& path);

// Creates a folder of a state directory, and removes what a crash left of writes to it.
absl::Status PrepareFolder(const std::string& path);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_STORAGE_H_
