#include "server/profile_store/directory_storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "hapmoe/v1/profiles.pb.h"
#include "server/profile_store/json_files.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporaryPrefix[] = ".new-";
constexpr char kVersionFile[] = ".version";

absl::Status SyncDirectory(const std::string& path) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return absl::ErrnoToStatus(errno, path);
  const absl::Cleanup closer = [directory] { close(directory); };
  if (fsync(directory) != 0) return absl::ErrnoToStatus(errno, path);
  return absl::OkStatus();
}

absl::Status WriteAll(int file, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, path);
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(file) != 0) return absl::ErrnoToStatus(errno, path);
  return absl::OkStatus();
}

absl::StatusOr<StoredProfile> ReadRecord(const std::string& path) {
  HAPMOE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  v1::GetProfileResponse record;
  HAPMOE_RETURN_IF_ERROR(ParseJson(text, record));
  StoredProfile stored;
  stored.version = record.version();
  stored.profile = std::move(*record.mutable_profile());
  return stored;
}

// What a crash left behind in the middle of a write was never acknowledged.
void RemoveTemporaries(const std::string& directory) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), kTemporaryPrefix)) {
      unlink(entry->path().c_str());
    }
  }
}

}  // namespace

std::string ProfileFileName(absl::string_view key) {
  std::string name;
  for (const char c : key) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      name.push_back(c);
    } else {
      absl::StrAppendFormat(&name, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return absl::StrCat(name, ".json");
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  const std::string folder = fs::path(path).parent_path().string();
  std::string temporary = absl::StrCat(folder, "/", kTemporaryPrefix, "XXXXXX");
  const int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, temporary);
  absl::Cleanup remover = [&temporary] { unlink(temporary.c_str()); };
  absl::Status written = WriteAll(file, content, temporary);
  if (close(file) != 0 && written.ok()) written = absl::ErrnoToStatus(errno, temporary);
  HAPMOE_RETURN_IF_ERROR(written);
  if (rename(temporary.c_str(), path.c_str()) != 0) return absl::ErrnoToStatus(errno, path);
  std::move(remover).Cancel();
  return SyncDirectory(folder);
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return absl::ErrnoToStatus(errno, path);
  return SyncDirectory(fs::path(path).parent_path().string());
}

absl::Status PrepareFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), path);
  HAPMOE_RETURN_IF_ERROR(SyncDirectory(fs::path(path).parent_path().string()));
  RemoveTemporaries(path);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DirectoryProfileStorage>> DirectoryProfileStorage::Open(
    const std::string& directory) {
  const std::string profiles = absl::StrCat(directory, "/profiles");
  std::error_code error;
  fs::create_directories(profiles, error);
  if (error) return absl::ErrnoToStatus(error.value(), profiles);
  const std::string lock = absl::StrCat(directory, "/lock");
  const int lock_file = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_file < 0) return absl::ErrnoToStatus(errno, lock);
  std::unique_ptr<DirectoryProfileStorage> storage(
      new DirectoryProfileStorage(profiles, lock_file));
  if (flock(lock_file, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": in use by another server"));
  }
  HAPMOE_RETURN_IF_ERROR(SyncDirectory(directory));
  RemoveTemporaries(profiles);
  return storage;
}

DirectoryProfileStorage::~DirectoryProfileStorage() { close(lock_file_); }

absl::StatusOr<ProfileStorage::Contents> DirectoryProfileStorage::Load() {
  Contents contents;
  HAPMOE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListJsonFiles(directory_));
  for (const std::string& path : paths) {
    absl::StatusOr<StoredProfile> stored = ReadRecord(path);
    if (stored.ok()) {
      contents.version = std::max(contents.version, stored->version);
      contents.profiles.push_back(*std::move(stored));
    } else {
      contents.faults.push_back({path, std::string(stored.status().message())});
    }
  }
  const std::string version_path = absl::StrCat(directory_, "/", kVersionFile);
  if (const auto text = ReadSmallFile(version_path); text.ok()) {
    int64_t version = 0;
    if (absl::SimpleAtoi(*text, &version)) {
      contents.version = std::max(contents.version, version);
    } else {
      contents.faults.push_back({version_path, "not a number"});
    }
  }
  return contents;
}

absl::Status DirectoryProfileStorage::Write(const StoredProfile& stored) {
  v1::GetProfileResponse record;
  *record.mutable_profile() = stored.profile;
  record.set_version(stored.version);
  record.set_origin(v1::PROFILE_ORIGIN_STORED);
  const std::string name = ProfileFileName(ProfileKey(stored.profile.accelerator()));
  return WriteFileAtomically(absl::StrCat(directory_, "/", name), PrintJson(record));
}

absl::Status DirectoryProfileStorage::Remove(const std::string& key, int64_t version) {
  // The version first: should the second step fail, a number was skipped and nothing lost.
  HAPMOE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(directory_, "/", kVersionFile),
                                             absl::StrCat(version, "\n")));
  return RemoveFile(absl::StrCat(directory_, "/", ProfileFileName(key)));
}

}  // namespace hapmoe::server
