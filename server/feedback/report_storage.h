// Where reports are kept. What varies between backends is this and nothing else.
#ifndef HAPMOE_SERVER_FEEDBACK_REPORT_STORAGE_H_
#define HAPMOE_SERVER_FEEDBACK_REPORT_STORAGE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hapmoe/v1/feedback.pb.h"
#include "server/profile_store/profile_storage.h"

namespace hapmoe::server {

// Of a stored report, the name and the report itself are kept. Called by one thread at a time;
// calls may block on a disk.
class ReportStorage {
 public:
  virtual ~ReportStorage() = default;

  struct Contents {
    std::vector<v1::StoredReport> reports;
    std::vector<LoadFault> faults;
  };
  // Everything that is stored. Records that cannot be read are left as they are and reported.
  virtual absl::StatusOr<Contents> Load() = 0;

  // Once these return OK the change survives a crash of the machine; otherwise the old state does.
  virtual absl::Status Write(const v1::StoredReport& report) = 0;
  virtual absl::Status Remove(const std::string& name) = 0;
};

// Keeps nothing beyond the process.
class MemoryReportStorage : public ReportStorage {
 public:
  absl::StatusOr<Contents> Load() override { return Contents(); }
  absl::Status Write(const v1::StoredReport&) override { return absl::OkStatus(); }
  absl::Status Remove(const std::string&) override { return absl::OkStatus(); }
};

// DIR/reports/<name>.json holds the JSON form of StoredReport. The lock of DIR is that of
// DirectoryProfileStorage, which is opened first.
class DirectoryReportStorage : public ReportStorage {
 public:
  // Creates what is missing.
  static absl::StatusOr<std::unique_ptr<DirectoryReportStorage>> Open(const std::string& directory);

  absl::StatusOr<Contents> Load() override;
  absl::Status Write(const v1::StoredReport& report) override;
  absl::Status Remove(const std::string& name) override;

 private:
  explicit DirectoryReportStorage(std::string directory) : directory_(std::move(directory)) {}

  std::string PathOf(const std::string& name) const;

  const std::string directory_;  // DIR/reports.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_REPORT_STORAGE_H_
