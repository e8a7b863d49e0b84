// Messages as JSON, and the files that hold them.
#ifndef HAPMOE_SERVER_PROFILE_STORE_JSON_FILES_H_
#define HAPMOE_SERVER_PROFILE_STORE_JSON_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace hapmoe::server {

// Larger files are refused before they are read.
inline constexpr size_t kMaxJsonFileBytes = size_t{16} << 20;

// Reads the JSON form of a message. Unknown fields are faults: they are misspelt ones.
absl::Status ParseJson(absl::string_view text, google::protobuf::Message& message);

// The JSON form with the fields' own names, indented, ending with a line feed.
std::string PrintJson(const google::protobuf::Message& message);

// The whole content of a file. Fails for what is no regular file or larger than kMaxJsonFileBytes.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// Paths of the files of a directory whose names end with ".json", in order. Hidden ones are left
// out.
absl::StatusOr<std::vector<std::string>> ListJsonFiles(const std::string& directory);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PROFILE_STORE_JSON_FILES_H_
