// The data files of deploy/profiles, engines and schedulers, compiled into the program.
//
// The lists are ordered by file name, live as long as the program, and cost nothing to call.
// Nothing here parses: the content is the JSON form of AcceleratorProfile, EngineCapabilities and
// SchedulerDefaults, byte for byte.
#ifndef HAPMOE_SERVER_EMBEDDED_EMBEDDED_H_
#define HAPMOE_SERVER_EMBEDDED_EMBEDDED_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::server {

struct EmbeddedFile {
  absl::string_view name;     // File name without folder, "h800-sxm.json".
  absl::string_view content;  // The whole file.
};

// deploy/profiles/*.json.
absl::Span<const EmbeddedFile> EmbeddedProfiles();

// deploy/engines/*.json.
absl::Span<const EmbeddedFile> EmbeddedEngines();

// deploy/schedulers/*.json.
absl::Span<const EmbeddedFile> EmbeddedSchedulers();

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_EMBEDDED_EMBEDDED_H_
