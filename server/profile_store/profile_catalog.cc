#include "server/profile_store/profile_catalog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hapmoe::server {
namespace {

constexpr size_t kMaxComparedBytes = 64;  // As long as a name can be.
constexpr size_t kChecksumDigits = 8;

// Marks tokens as our own, so that others are refused rather than read as some name.
std::string Checksum(absl::string_view key) {
  uint32_t digest = 0x811c9dc5;  // FNV-1a.
  for (const char c : absl::StrCat("hapmoe.page:", key)) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x01000193;
  }
  return absl::StrFormat("%08x", digest);
}

std::string MakeToken(absl::string_view key) {
  return absl::StrCat(Checksum(key), absl::BytesToHexString(key));
}

absl::StatusOr<std::string> ReadToken(absl::string_view token) {
  const auto is_hex = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  if (token.size() > kChecksumDigits && token.size() <= kChecksumDigits + 2 * kMaxComparedBytes &&
      token.size() % 2 == 0 && std::all_of(token.begin(), token.end(), is_hex)) {
    std::string key = absl::HexStringToBytes(token.substr(kChecksumDigits));
    if (Checksum(key) == token.substr(0, kChecksumDigits)) return key;
  }
  return absl::InvalidArgumentError("no catalog gave this page token");
}

// How far a key is from what was asked for. One that holds the other is one step away: "910b" means
// "ascend 910b3" however long that is.
size_t Distance(absl::string_view asked, absl::string_view key) {
  const bool holds =
      asked.size() >= 2 && (absl::StrContains(key, asked) || absl::StrContains(asked, key));
  return holds ? 1 : EditDistance(asked, key);
}

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // Distances from a prefix of a to the prefixes of b.
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string ProfileKey(absl::string_view name) { return absl::AsciiStrToLower(name); }

ProfileCatalog::ProfileCatalog(std::vector<ProfileEntryPtr> entries, int64_t version)
    : version_(version) {
  for (ProfileEntryPtr& entry : entries) {
    const std::string key = ProfileKey(entry->core->name);
    aliases_.emplace(key, entry);
    for (const std::string& alias : entry->core->aliases)
      aliases_.emplace(ProfileKey(alias), entry);
    entries_.emplace(key, std::move(entry));
  }
}

ProfileEntryPtr ProfileCatalog::Find(absl::string_view accelerator) const {
  const auto found = aliases_.find(ProfileKey(accelerator));
  return found == aliases_.end() ? nullptr : found->second;
}

std::vector<std::string> ProfileCatalog::Nearest(absl::string_view accelerator,
                                                 size_t count) const {
  const std::string asked = ProfileKey(accelerator.substr(0, kMaxComparedBytes));
  const size_t limit = std::max<size_t>(1, asked.size() / 3);
  std::map<std::string, size_t> distances;  // By the profile's name.
  for (const auto& [key, entry] : aliases_) {
    const size_t distance = Distance(asked, key);
    if (distance > limit) continue;
    const auto [known, added] = distances.emplace(entry->core->name, distance);
    if (!added) known->second = std::min(known->second, distance);
  }
  std::vector<std::pair<size_t, std::string>> order;
  order.reserve(distances.size());
  for (const auto& [name, distance] : distances) order.emplace_back(distance, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) nearest.push_back(order[i].second);
  return nearest;
}

std::vector<std::string> ProfileCatalog::Names() const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : entries_) names.push_back(entry->core->name);
  return names;
}

absl::StatusOr<ProfileCatalog::Page> ProfileCatalog::List(size_t size,
                                                          absl::string_view token) const {
  auto next = entries_.begin();
  if (!token.empty()) {
    absl::StatusOr<std::string> last = ReadToken(token);
    if (!last.ok()) return last.status();
    next = entries_.upper_bound(*last);
  }
  Page page;
  while (next != entries_.end() && page.entries.size() < size) {
    page.entries.push_back(next->second);
    ++next;
  }
  if (next != entries_.end())
    page.next_token = MakeToken(ProfileKey(page.entries.back()->core->name));
  return page;
}

}  // namespace hapmoe::server
