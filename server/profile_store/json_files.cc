#include "server/profile_store/json_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace hapmoe::server {

absl::Status ParseJson(absl::string_view text, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(
      {text.data(), text.size()}, &message, google::protobuf::util::JsonParseOptions());
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("not the JSON form of ", message.GetDescriptor()->name(), ": ",
                   absl::string_view(status.message().data(), status.message().size())));
}

std::string PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails for Any and other special types only, which no message here holds.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  const absl::Cleanup closer = [file] { close(file); };
  struct stat facts;
  if (fstat(file, &facts) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  if (static_cast<size_t>(facts.st_size) > kMaxJsonFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": more than ", kMaxJsonFileBytes, " bytes"));
  }
  std::string content(static_cast<size_t>(facts.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = read(file, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, path);
    if (count == 0) break;  // Cut short meanwhile: what is left will not parse.
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return content;
}

absl::StatusOr<std::vector<std::string>> ListJsonFiles(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    if (path.extension() == ".json" && path.filename().string().front() != '.') {
      paths.push_back(path.string());
    }
  }
  if (error) return absl::ErrnoToStatus(error.value(), directory);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace hapmoe::server
