#include "server/planning/engine_catalog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/plan/engine_traits.h"
#include "server/profile_store/json_files.h"

namespace hapmoe::server {
namespace {

constexpr char kSingleConnectionVariable[] = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr int kBlackwell = 10;

// Major compute capability in "sm_90" or "sm_100a"; 0 for what is none.
int ComputeCapability(absl::string_view architecture) {
  if (!absl::StartsWith(architecture, "sm_")) return 0;
  absl::string_view digits = architecture.substr(3);
  while (!digits.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(digits.back()))) {
    digits.remove_suffix(1);
  }
  int number = 0;
  return absl::SimpleAtoi(digits, &number) ? number / 10 : 0;
}

}  // namespace

EngineCapabilities::EngineCapabilities(v1::EngineCapabilities data) : data_(std::move(data)) {}

std::vector<engine::EngineRequirement> EngineCapabilities::Requirements(
    const std::set<std::string>& vendors) const {
  if (const v1::VendorMix* mix = FindMix(vendors)) {
    if (mix->stock()) return {};
    return {{mix->backend(), mix->needs()}};
  }
  const std::string names = absl::StrJoin(vendors, ", ");
  return {
      {"custom", absl::StrCat("a build of ", data_.display_name(),
                              " and a communication backend for ", names, "; none is known here")}};
}

std::string EngineCapabilities::Backend(const std::set<std::string>& vendors) const {
  const v1::VendorMix* mix = FindMix(vendors);
  return mix == nullptr ? "" : mix->backend();
}

const v1::VendorMix* EngineCapabilities::FindMix(const std::set<std::string>& vendors) const {
  for (const v1::VendorMix& mix : data_.mixes()) {
    if (std::set<std::string>(mix.vendors().begin(), mix.vendors().end()) == vendors) return &mix;
  }
  return nullptr;
}

std::vector<std::string> EngineCapabilities::Unsupported(
    const std::set<std::string>& vendors) const {
  std::vector<std::string> unsupported;
  for (const std::string& vendor : vendors) {
    const bool runs =
        data_.vendors().empty() ||
        std::find(data_.vendors().begin(), data_.vendors().end(), vendor) != data_.vendors().end();
    if (!runs) unsupported.push_back(vendor);
  }
  return unsupported;
}

std::vector<std::string> LaunchedEngines() {
  std::vector<std::string> names;
  for (const plan::EngineTraits& engine : plan::Engines()) names.emplace_back(engine.name);
  return names;
}

std::string EngineCapabilities::Sentence(
    const std::vector<engine::EngineRequirement>& requirements) {
  return absl::StrJoin(requirements, "; ",
                       [](std::string* out, const engine::EngineRequirement& requirement) {
                         absl::StrAppend(out, requirement.needs);
                       });
}

std::vector<engine::PoolEnvironment> EngineCapabilities::Environments(
    const Profiles& profiles) const {
  std::vector<engine::PoolEnvironment> environments;
  for (const auto& profile : profiles) {
    engine::PoolEnvironment& environment = environments.emplace_back();
    environment.single_connection = false;
    for (const v1::VendorEnvironment& vendor : data_.environments()) {
      if (vendor.vendor() != profile->vendor) continue;
      // Only where the engine asks for it at all, and no more from Blackwell on.
      environment.single_connection = vendor.variables().contains(kSingleConnectionVariable) &&
                                      ComputeCapability(profile->architecture) < kBlackwell;
      environment.visible_devices = vendor.visible_devices_variable();
      // A map has no order of its own; an answer is the same each time.
      const std::map<std::string, std::string> ordered(vendor.variables().begin(),
                                                       vendor.variables().end());
      for (const auto& [name, value] : ordered) {
        environment.variables.push_back({name, value, /*forced=*/false});
      }
    }
  }
  return environments;
}

absl::StatusOr<EngineCatalog> EngineCatalog::Parse(absl::Span<const absl::string_view> texts) {
  EngineCatalog catalog;
  for (const absl::string_view text : texts) {
    v1::EngineCapabilities data;
    HAPMOE_RETURN_IF_ERROR(ParseJson(text, data));
    const std::string name = data.engine();
    if (!catalog.engines_.emplace(name, EngineCapabilities(std::move(data))).second) {
      return absl::InvalidArgumentError(absl::StrCat("engine \"", name, "\" is described twice"));
    }
  }
  return catalog;
}

const EngineCapabilities* EngineCatalog::Find(absl::string_view engine) const {
  const auto found = engines_.find(std::string(engine));
  return found == engines_.end() ? nullptr : &found->second;
}

bool EngineCatalog::SomeRunsAsPublished(const std::set<std::string>& vendors) const {
  return std::any_of(engines_.begin(), engines_.end(), [&vendors](const auto& named) {
    return named.second.Unsupported(vendors).empty() && named.second.RunsAsPublished(vendors);
  });
}

int OldestComputeCapability(const Profiles& profiles) {
  int oldest = 0;
  for (const auto& profile : profiles) {
    const int capability = ComputeCapability(profile->architecture);
    if (capability != 0) oldest = oldest == 0 ? capability : std::min(oldest, capability);
  }
  return oldest;
}

}  // namespace hapmoe::server
