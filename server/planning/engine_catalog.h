// What the training engines can run, read from data.
#ifndef HAPMOE_SERVER_PLANNING_ENGINE_CATALOG_H_
#define HAPMOE_SERVER_PLANNING_ENGINE_CATALOG_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/megatron_launcher.h"
#include "core/profile/accelerator_profile.h"
#include "hapmoe/v1/engine.pb.h"

namespace hapmoe::server {

using Profiles = std::vector<std::shared_ptr<const profile::AcceleratorProfile>>;

// What one engine can run. Immutable: thread safe.
class EngineCapabilities {
 public:
  explicit EngineCapabilities(v1::EngineCapabilities data);

  // What an installation needs beside the published engine to run one job over these vendors;
  // nothing where the published engine does it as it is. A set of vendors that the data do not list
  // needs what none is known to have, and the answer says so.
  std::vector<engine::EngineRequirement> Requirements(const std::set<std::string>& vendors) const;

  // The same in a sentence; empty where there are none.
  static std::string Sentence(const std::vector<engine::EngineRequirement>& requirements);

  // What collectives over these vendors run on, as the engine is told; empty where none is known.
  std::string Backend(const std::set<std::string>& vendors) const;

  // The environment that the launcher sets on the nodes of each pool.
  std::vector<engine::PoolEnvironment> Environments(const Profiles& profiles) const;

  // Of these vendors those that the engine does not run on at all.
  std::vector<std::string> Unsupported(const std::set<std::string>& vendors) const;

  // Whether the published engine runs one job over these vendors as it is.
  bool RunsAsPublished(const std::set<std::string>& vendors) const {
    return Requirements(vendors).empty();
  }

  const std::string& display_name() const { return data_.display_name(); }

 private:
  const v1::VendorMix* FindMix(const std::set<std::string>& vendors) const;

  v1::EngineCapabilities data_;
};

// Engines that launchers are written for, by name.
std::vector<std::string> LaunchedEngines();

// All engines that are known. Immutable: thread safe.
class EngineCatalog {
 public:
  // One engine for each JSON text of EngineCapabilities. InvalidArgument: a text is not one, or two
  // describe the same engine.
  static absl::StatusOr<EngineCatalog> Parse(absl::Span<const absl::string_view> texts);

  // Null if the engine is not known.
  const EngineCapabilities* Find(absl::string_view engine) const;

  // Whether any engine runs one job over these vendors as it is published.
  bool SomeRunsAsPublished(const std::set<std::string>& vendors) const;

 private:
  std::map<std::string, EngineCapabilities, std::less<>> engines_;
};

// Major compute capability of the oldest NVIDIA accelerator, from architectures like "sm_90"; 0 if
// there is none.
int OldestComputeCapability(const Profiles& profiles);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_ENGINE_CATALOG_H_
