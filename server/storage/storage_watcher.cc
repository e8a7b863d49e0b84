#include "server/storage/storage_watcher.h"

#include <utility>

namespace hapmoe::server {

StorageWatcher::StorageWatcher(RecordStorage& storage, std::chrono::milliseconds period,
                               std::function<void()> look)
    : storage_(storage) {
  thread_ = std::thread([this, period, look = std::move(look)] {
    while (!stopping()) {
      storage_.AwaitChange(period);
      if (!stopping()) look();
    }
  });
}

StorageWatcher::~StorageWatcher() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  storage_.EndWaits();
  thread_.join();
}

bool StorageWatcher::stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

}  // namespace hapmoe::server
