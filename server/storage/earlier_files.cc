#include "server/storage/earlier_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/profiles.pb.h"
#include "server/profile_store/json_files.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<RecordChange> ReadProfile(const std::string& text) {
  v1::GetProfileResponse record;
  HAPMOE_RETURN_IF_ERROR(ParseJson(text, record));
  return RecordChange{ProfileKey(record.profile().accelerator()),
                      record.profile().SerializeAsString(), record.version()};
}

absl::StatusOr<RecordChange> ReadReport(const std::string& text) {
  v1::StoredReport record;
  HAPMOE_RETURN_IF_ERROR(ParseJson(text, record));
  if (record.name().empty()) return absl::InvalidArgumentError("a report without a name");
  return RecordChange{record.name(), record.report().SerializeAsString()};
}

// Returns how many records were imported.
absl::StatusOr<int> Import(
    RecordKind kind, const std::string& folder,
    const std::function<absl::StatusOr<RecordChange>(const std::string&)>& read,
    RecordStorage& storage, std::vector<LoadFault>& faults) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return 0;
  HAPMOE_ASSIGN_OR_RETURN(const RecordContents contents, storage.Load(kind, 0));
  if (contents.version != 0) return 0;
  HAPMOE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListJsonFiles(folder));
  RecordBatch batch;
  batch.kind = kind;
  batch.expected_version = 0;
  for (const std::string& path : paths) {
    const absl::StatusOr<std::string> text = ReadSmallFile(path);
    absl::StatusOr<RecordChange> change = text.ok() ? read(*text) : text.status();
    if (change.ok()) {
      batch.changes.push_back(*std::move(change));
    } else {
      faults.push_back({path, std::string(change.status().message())});
    }
  }
  // In their order, so that each keeps its version.
  std::stable_sort(
      batch.changes.begin(), batch.changes.end(),
      [](const RecordChange& a, const RecordChange& b) { return a.version < b.version; });
  // The highest version that a removal gave.
  if (const auto text = ReadSmallFile(absl::StrCat(folder, "/.version")); text.ok()) {
    int64_t version = 0;
    if (absl::SimpleAtoi(*text, &version)) batch.least_version = version;
  }
  if (batch.changes.empty() && batch.least_version == 0) return 0;
  const absl::StatusOr<int64_t> version = storage.Apply(batch);
  if (absl::IsAborted(version.status())) return 0;  // Another server was faster.
  HAPMOE_RETURN_IF_ERROR(version.status());
  return static_cast<int>(batch.changes.size());
}

}  // namespace

absl::StatusOr<ImportedFiles> ImportEarlierFiles(const std::string& state_dir,
                                                 RecordStorage& storage) {
  ImportedFiles imported;
  const std::string lock = absl::StrCat(state_dir, "/lock");
  const int file = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  const absl::Cleanup closer = [file] {
    if (file >= 0) close(file);
  };
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(state_dir, ": in use by a server of an earlier version"));
  }
  HAPMOE_ASSIGN_OR_RETURN(imported.profiles,
                          Import(RecordKind::kProfile, absl::StrCat(state_dir, "/profiles"),
                                 ReadProfile, storage, imported.faults));
  HAPMOE_ASSIGN_OR_RETURN(
      imported.reports, Import(RecordKind::kReport, absl::StrCat(state_dir, "/reports"), ReadReport,
                               storage, imported.faults));
  return imported;
}

}  // namespace hapmoe::server
