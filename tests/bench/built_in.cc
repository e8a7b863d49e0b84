#include "tests/bench/built_in.h"

#include <ctime>
#include <utility>
#include <vector>

#include "server/embedded/embedded.h"

namespace hapmoe::bench {

std::unique_ptr<server::ProfileStore> BuiltInProfiles() {
  server::ProfileStore::Options options;
  for (const server::EmbeddedFile& file : server::EmbeddedProfiles()) {
    options.built_in.push_back({file.name, file.content});
  }
  options.storage = std::make_unique<server::MemoryProfileStorage>();
  return server::ProfileStore::Open(std::move(options)).value();
}

server::EngineCatalog BuiltInEngines() {
  std::vector<absl::string_view> texts;
  for (const server::EmbeddedFile& file : server::EmbeddedEngines()) texts.push_back(file.content);
  return server::EngineCatalog::Parse(texts).value();
}

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace hapmoe::bench
