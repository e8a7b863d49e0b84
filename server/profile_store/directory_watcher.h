// Notices when the files of a directory change.
#ifndef HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_WATCHER_H_
#define HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_WATCHER_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "server/storage/waiter.h"

namespace hapmoe::server {

// What can be seen of a directory's JSON files without reading them: names, and the identity, size
// and times of what they lead to. Differs if any of them changed.
std::string DirectoryFingerprint(const std::string& directory);

// A thread that looks at the directory every `period`, and calls `changed` once the files differ
// from those of the last call and did not change for a period: what is being written is left alone.
// Looking needs no help of the file system, and follows links: it works on a network's file system,
// and where a directory of links is swapped, as Kubernetes does with a ConfigMap.
class DirectoryWatcher {
 public:
  // `seen`: the fingerprint of before the files were read the last time.
  DirectoryWatcher(std::string directory, std::string seen, std::chrono::milliseconds period,
                   std::function<void()> changed);
  // Waits for a call of `changed` that is under way.
  ~DirectoryWatcher();

 private:
  Waiter waiter_;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_DIRECTORY_WATCHER_H_
