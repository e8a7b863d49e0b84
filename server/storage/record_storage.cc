#include "server/storage/record_storage.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hapmoe::server {
namespace {

constexpr std::array<uint64_t, 256> MakeCrcTable() {
  std::array<uint64_t, 256> table{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xC96C5795D7870F42u : 0u);  // ECMA-182, reflected.
    }
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint64_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

uint64_t Crc64(absl::string_view data, uint64_t crc) {
  crc = ~crc;
  for (const char c : data) crc = kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

int64_t RecordChecksum(RecordKind kind, absl::string_view key, int64_t version,
                       const std::optional<std::string>& content) {
  const uint64_t crc = Crc64(absl::StrCat(Facts(kind).name, ":", key.size(), ":", key, ":", version,
                                          content.has_value() ? ":put:" : ":removed"));
  return static_cast<int64_t>(content.has_value() ? Crc64(*content, crc) : crc);
}

bool CanTellChanges(int64_t since, int64_t version) {
  return since > 0 && since <= version && version - since < kRemovalsKept;
}

ContentsBuilder::ContentsBuilder(RecordKind kind, int64_t version, bool complete) : kind_(kind) {
  contents_.version = version;
  contents_.complete = complete;
}

void ContentsBuilder::Add(StoredRecord record, int64_t checksum) {
  if (checksum != RecordChecksum(kind_, record.key, record.version, record.content)) {
    contents_.faults.push_back(
        {absl::StrCat("stored ", Facts(kind_).name, " ", record.key, ", version ", record.version),
         "damaged: its checksum differs"});
    return;
  }
  const bool removed = !contents_.records.empty() && contents_.records.back().key == record.key &&
                       !contents_.records.back().content.has_value();
  if (!removed) contents_.records.push_back(std::move(record));
}

}  // namespace hapmoe::server
