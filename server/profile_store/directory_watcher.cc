#include "server/profile_store/directory_watcher.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/profile_store/json_files.h"

namespace hapmoe::server {

std::string DirectoryFingerprint(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> paths = ListJsonFiles(directory);
  if (!paths.ok()) return absl::StrCat("?", paths.status().message());
  std::string fingerprint;
  for (const std::string& path : *paths) {
    struct stat facts;
    if (stat(path.c_str(), &facts) != 0) {
      absl::StrAppend(&fingerprint, path, "?", errno, "\n");
      continue;
    }
    absl::StrAppend(&fingerprint, path, ":", facts.st_dev, ":", facts.st_ino, ":", facts.st_size,
                    ":", facts.st_mtim.tv_sec, ".", facts.st_mtim.tv_nsec, ":",
                    facts.st_ctim.tv_sec);
    absl::StrAppend(&fingerprint, ".", facts.st_ctim.tv_nsec, "\n");
  }
  return fingerprint;
}

DirectoryWatcher::DirectoryWatcher(std::string directory, std::string seen,
                                   std::chrono::milliseconds period,
                                   std::function<void()> changed) {
  thread_ = std::thread([this, directory = std::move(directory), seen = std::move(seen), period,
                         changed = std::move(changed)]() mutable {
    std::string before = seen;
    while (waiter_.Wait(period)) {
      std::string now = DirectoryFingerprint(directory);
      if (now == before && now != seen) {
        changed();
        seen = now;
      }
      before = std::move(now);
    }
  });
}

DirectoryWatcher::~DirectoryWatcher() {
  waiter_.End();
  thread_.join();
}

}  // namespace hapmoe::server
