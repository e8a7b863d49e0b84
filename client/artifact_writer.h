// Writes the artifacts of an answer into a directory.
#ifndef HAPMOE_CLIENT_ARTIFACT_WRITER_H_
#define HAPMOE_CLIENT_ARTIFACT_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "hapmoe/v1/plan.pb.h"

namespace hapmoe::client {

// Creates `directory` if it is missing and puts every artifact into it, replacing files of the same
// name. Each file appears whole or not at all, and none appears before all are written to disk.
// A name may hold directories; a name that could leave `directory` (absolute, with "..", or through
// a symbolic link found there), or that occurs twice, is refused before anything is written.
absl::Status WriteArtifacts(const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts,
                            const std::string& directory);

// Files of launchers in `directory` that are not among the artifacts: they start another plan.
std::vector<std::string> FilesOfOtherPlans(
    const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts,
    const std::string& directory);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_ARTIFACT_WRITER_H_
