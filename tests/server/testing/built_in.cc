#include "tests/server/testing/built_in.h"

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/embedded/embedded.h"
#include "server/storage/memory_storage.h"

namespace hapmoe::server {

std::unique_ptr<ProfileStore> BuiltInProfiles() {
  ProfileStore::Options options;
  for (const EmbeddedFile& file : EmbeddedProfiles()) {
    options.built_in.push_back({file.name, file.content});
  }
  options.storage = std::make_shared<MemoryStorage>();
  return ProfileStore::Open(std::move(options)).value();
}

EngineCatalog BuiltInEngines() {
  std::vector<absl::string_view> texts;
  for (const EmbeddedFile& file : EmbeddedEngines()) texts.push_back(file.content);
  return EngineCatalog::Parse(texts).value();
}

SchedulerCatalog BuiltInSchedulers() {
  std::vector<absl::string_view> texts;
  for (const EmbeddedFile& file : EmbeddedSchedulers()) texts.push_back(file.content);
  return SchedulerCatalog::Parse(texts).value();
}

}  // namespace hapmoe::server
