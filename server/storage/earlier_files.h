// The files in which versions before 0.2 kept profiles and reports.
#ifndef HAPMOE_SERVER_STORAGE_EARLIER_FILES_H_
#define HAPMOE_SERVER_STORAGE_EARLIER_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

struct ImportedFiles {
  int profiles = 0;
  int reports = 0;
  std::vector<LoadFault> faults;  // Files that cannot be read. They are left out.
};

// Takes DIR/profiles/*.json, DIR/profiles/.version and DIR/reports/*.json into a storage that never
// held a record of the kind, all of a kind or none. The files stay as they are, and are not looked
// at again once something was stored. FailedPrecondition: a server of such a version still runs on
// the directory.
absl::StatusOr<ImportedFiles> ImportEarlierFiles(const std::string& state_dir,
                                                 RecordStorage& storage);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_EARLIER_FILES_H_
