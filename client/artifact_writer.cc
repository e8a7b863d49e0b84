#include "client/artifact_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hapmoe::client {
namespace {

// Closes a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status Failure(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", name, ": ", strerror(error)));
}

absl::Status CheckName(const std::string& name) {
  const auto refuse = [&name](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("refusing the file name \"", name, "\": ", why));
  };
  if (name.empty() || name.size() > 200) return refuse("its length");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return refuse("a control character");
  }
  if (name[0] == '/') return refuse("it is absolute");
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return refuse("it could leave the directory");
  }
  return absl::OkStatus();
}

// A file that is written under a temporary name, beside its final one.
struct PendingFile {
  Descriptor directory;
  std::string temporary_name;
  std::string final_name;
};

// Opens the directories of `name` below `root` one by one, never through a symbolic link.
absl::StatusOr<Descriptor> OpenParent(int root, const std::string& name) {
  Descriptor directory(dup(root));
  std::vector<std::string> parts = absl::StrSplit(name, '/');
  parts.pop_back();
  for (const std::string& part : parts) {
    if (mkdirat(directory.get(), part.c_str(), 0777) != 0 && errno != EEXIST) {
      return Failure("create the directory of", name);
    }
    directory = Descriptor(
        openat(directory.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (directory.get() < 0) return Failure("enter the directory of", name);
  }
  return directory;
}

absl::Status WriteAll(int fd, absl::string_view content, absl::string_view name) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failure("write", name);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<PendingFile> WriteTemporary(int root, const v1::Artifact& artifact) {
  absl::StatusOr<Descriptor> parent = OpenParent(root, artifact.name());
  if (!parent.ok()) return parent.status();
  PendingFile pending;
  pending.directory = *std::move(parent);
  pending.final_name = artifact.name().substr(artifact.name().rfind('/') + 1);
  pending.temporary_name = absl::StrCat(".", pending.final_name, ".", getpid(), ".tmp");
  const Descriptor file(openat(pending.directory.get(), pending.temporary_name.c_str(),
                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                               artifact.executable() ? 0777 : 0666));
  if (file.get() < 0) return Failure("create", artifact.name());
  absl::Status status = WriteAll(file.get(), artifact.content(), artifact.name());
  if (status.ok() && fsync(file.get()) != 0) status = Failure("write", artifact.name());
  if (!status.ok()) {
    unlinkat(pending.directory.get(), pending.temporary_name.c_str(), 0);
    return status;
  }
  return pending;
}

}  // namespace

absl::Status WriteArtifacts(const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts,
                            const std::string& directory) {
  std::set<std::string> names;
  for (const v1::Artifact& artifact : artifacts) {
    if (absl::Status status = CheckName(artifact.name()); !status.ok()) return status;
    if (!names.insert(artifact.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("refusing the file name \"", artifact.name(), "\": it occurs twice"));
    }
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  // The user's own path may lead through symbolic links.
  const Descriptor root(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return Failure("open the directory", directory);

  std::vector<PendingFile> files;
  absl::Status status;
  for (const v1::Artifact& artifact : artifacts) {
    absl::StatusOr<PendingFile> file = WriteTemporary(root.get(), artifact);
    status = file.status();
    if (!status.ok()) break;
    files.push_back(*std::move(file));
  }
  for (const PendingFile& file : files) {
    if (status.ok() && renameat(file.directory.get(), file.temporary_name.c_str(),
                                file.directory.get(), file.final_name.c_str()) != 0) {
      status = Failure("write", file.final_name);
    }
    if (!status.ok()) unlinkat(file.directory.get(), file.temporary_name.c_str(), 0);
  }
  return status;
}

std::vector<std::string> FilesOfOtherPlans(
    const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts,
    const std::string& directory) {
  std::vector<std::string> found;
  for (const char* name : {"launch.sh", "hostfile", "rankfile", "job.sbatch", "jobset.yaml",
                           "volcano.yaml", "primus.yaml", "experiment.yaml", "train/job.yaml"}) {
    const bool ours =
        std::any_of(artifacts.begin(), artifacts.end(),
                    [name](const v1::Artifact& artifact) { return artifact.name() == name; });
    std::error_code error;
    if (!ours && std::filesystem::exists(std::filesystem::path(directory) / name, error)) {
      found.push_back(name);
    }
  }
  return found;
}

}  // namespace hapmoe::client
