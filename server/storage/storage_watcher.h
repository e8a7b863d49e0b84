// Looks after what other processes change in a storage.
#ifndef HAPMOE_SERVER_STORAGE_STORAGE_WATCHER_H_
#define HAPMOE_SERVER_STORAGE_STORAGE_WATCHER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "core/base/mutex.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

// A thread that calls `look` when something may have changed, and once every `period` at least.
class StorageWatcher {
 public:
  // `storage` outlives the watcher. `look` may block on the storage.
  StorageWatcher(RecordStorage& storage, std::chrono::milliseconds period,
                 std::function<void()> look);
  // Ends the storage's waits, and waits for a look that is under way. The last to use the storage.
  ~StorageWatcher();

 private:
  bool stopping();

  RecordStorage& storage_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_STORAGE_WATCHER_H_
