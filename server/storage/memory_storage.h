// Records that last until the process ends.
#ifndef HAPMOE_SERVER_STORAGE_MEMORY_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_MEMORY_STORAGE_H_

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "server/storage/record_storage.h"
#include "server/storage/waiter.h"

namespace hapmoe::server {

// Nothing but this process changes it.
class MemoryStorage : public RecordStorage {
 public:
  absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) override;
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override;
  void AwaitChange(std::chrono::milliseconds timeout) override { waiter_.Wait(timeout); }
  void EndWaits() override { waiter_.End(); }

 private:
  using Versions = std::map<int64_t, std::optional<std::string>, std::greater<>>;  // Latest first.
  struct Kind {
    int64_t version = 0;
    std::map<std::string, Versions> records;
  };

  Mutex mutex_;
  Kind kinds_[std::size(kRecordKinds)] ABSL_GUARDED_BY(mutex_);
  Waiter waiter_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_MEMORY_STORAGE_H_
