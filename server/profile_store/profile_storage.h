// Where profiles that callers put are kept. What varies between backends is this and nothing else.
#ifndef HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORAGE_H_
#define HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::server {

// A profile that was put, and the version that this gave it.
struct StoredProfile {
  int64_t version = 0;
  v1::AcceleratorProfile profile;
};

// Something that could not be loaded, and why.
struct LoadFault {
  std::string source;  // File or record.
  std::string message;
};

// The callee may assume that profiles are valid and that names are keys (ProfileKey): one record
// each. Called by one thread at a time; calls may block on a disk or a network.
class ProfileStorage {
 public:
  virtual ~ProfileStorage() = default;

  struct Contents {
    std::vector<StoredProfile> profiles;
    int64_t version = 0;  // The highest ever given, to a deleted profile too.
    std::vector<LoadFault> faults;
  };
  // Everything that is stored. Records that cannot be read are left as they are and reported.
  virtual absl::StatusOr<Contents> Load() = 0;

  // Once these return OK the change survives a crash of the machine; otherwise the old state does.
  virtual absl::Status Write(const StoredProfile& stored) = 0;
  virtual absl::Status Remove(const std::string& key, int64_t version) = 0;
};

// Keeps nothing beyond the process. Thread safe.
class MemoryProfileStorage : public ProfileStorage {
 public:
  absl::StatusOr<Contents> Load() override { return Contents(); }
  absl::Status Write(const StoredProfile&) override { return absl::OkStatus(); }
  absl::Status Remove(const std::string&, int64_t) override { return absl::OkStatus(); }
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_PROFILE_STORAGE_H_
