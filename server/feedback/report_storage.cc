#include "server/feedback/report_storage.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/profile_store/directory_storage.h"
#include "server/profile_store/json_files.h"

namespace hapmoe::server {
namespace {

absl::StatusOr<v1::StoredReport> ReadRecord(const std::string& path) {
  HAPMOE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  v1::StoredReport record;
  HAPMOE_RETURN_IF_ERROR(ParseJson(text, record));
  return record;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryReportStorage>> DirectoryReportStorage::Open(
    const std::string& directory) {
  const std::string reports = absl::StrCat(directory, "/reports");
  HAPMOE_RETURN_IF_ERROR(PrepareFolder(reports));
  return std::unique_ptr<DirectoryReportStorage>(new DirectoryReportStorage(reports));
}

std::string DirectoryReportStorage::PathOf(const std::string& name) const {
  return absl::StrCat(directory_, "/", ProfileFileName(name));
}

absl::StatusOr<ReportStorage::Contents> DirectoryReportStorage::Load() {
  Contents contents;
  HAPMOE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListJsonFiles(directory_));
  for (const std::string& path : paths) {
    absl::StatusOr<v1::StoredReport> record = ReadRecord(path);
    if (!record.ok()) {
      contents.faults.push_back({path, std::string(record.status().message())});
    } else if (path != PathOf(record->name())) {
      contents.faults.push_back({path, "the report in it has another name"});
    } else {
      contents.reports.push_back(*std::move(record));
    }
  }
  return contents;
}

absl::Status DirectoryReportStorage::Write(const v1::StoredReport& report) {
  v1::StoredReport record;
  record.set_name(report.name());
  *record.mutable_report() = report.report();
  return WriteFileAtomically(PathOf(report.name()), PrintJson(record));
}

absl::Status DirectoryReportStorage::Remove(const std::string& name) {
  return RemoveFile(PathOf(name));
}

}  // namespace hapmoe::server
