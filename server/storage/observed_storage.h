// A storage whose failures are told.
#ifndef HAPMOE_SERVER_STORAGE_OBSERVED_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_OBSERVED_STORAGE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "server/storage/record_storage.h"

namespace hapmoe::server {

// Passes calls on. That a call is refused for what it asks (Aborted), or ends with the storage
// (Cancelled), is no failure.
class ObservedStorage : public RecordStorage {
 public:
  // `tell` is called with each failure of a write, with the first failure of reads in a row, and
  // with OK once calls succeed again. Thread safe if `tell` is.
  ObservedStorage(std::unique_ptr<RecordStorage> storage,
                  std::function<void(const absl::Status&)> tell)
      : storage_(std::move(storage)), tell_(std::move(tell)) {}

  absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) override {
    absl::StatusOr<RecordContents> contents = storage_->Load(kind, since);
    Observe(contents.status(), /*write=*/false);
    return contents;
  }
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override {
    absl::StatusOr<int64_t> version = storage_->Apply(batch);
    Observe(version.status(), /*write=*/true);
    return version;
  }
  void AwaitChange(std::chrono::milliseconds timeout) override { storage_->AwaitChange(timeout); }
  void EndWaits() override { storage_->EndWaits(); }

  // Whether the last call succeeded.
  bool works() const { return works_.load(std::memory_order_relaxed); }

 private:
  void Observe(absl::Status status, bool write) {
    if (absl::IsCancelled(status)) return;
    if (absl::IsAborted(status)) status = absl::OkStatus();
    const bool worked = works_.exchange(status.ok(), std::memory_order_relaxed);
    if (worked != status.ok() || (write && !status.ok())) tell_(status);
  }

  const std::unique_ptr<RecordStorage> storage_;
  const std::function<void(const absl::Status&)> tell_;
  std::atomic<bool> works_{true};
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_OBSERVED_STORAGE_H_
