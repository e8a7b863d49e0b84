#include "server/plan_cache/plan_wire.h"

#include <cstdint>

namespace hapmoe::server {
namespace {

// The same fields have the same numbers everywhere. As int: the constants of each message are an
// enumeration of its own.
template <typename Request>
constexpr bool kRequestLikePlans =
    int{Request::kRequestIdFieldNumber} == int{v1::PlanRequest::kRequestIdFieldNumber} &&
    int{Request::kCachePolicyFieldNumber} == int{v1::PlanRequest::kCachePolicyFieldNumber};
template <typename Response>
constexpr bool kResponseLikePlans =
    int{Response::kRequestIdFieldNumber} == int{v1::PlanResponse::kRequestIdFieldNumber} &&
    int{Response::kSourceFieldNumber} == int{v1::PlanResponse::kSourceFieldNumber};
static_assert(kRequestLikePlans<v1::FrontierRequest> && kRequestLikePlans<v1::ExplainRequest>);
static_assert(kResponseLikePlans<v1::FrontierResponse> && kResponseLikePlans<v1::ExplainResponse>);

// Types of fields on the wire.
enum WireType { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };

// Takes a number off the front of `bytes`.
bool TakeVarint(absl::string_view& bytes, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// Takes a field's value off the front. `number`: a varint's; `content`: that of a length's.
bool TakeValue(absl::string_view& bytes, int type, uint64_t& number, absl::string_view& content) {
  uint64_t length = 0;
  switch (type) {
    case kVarint:
      return TakeVarint(bytes, number);
    case kEightBytes:
      length = 8;
      break;
    case kFourBytes:
      length = 4;
      break;
    case kLength:
      if (!TakeVarint(bytes, length)) return false;
      break;
    default:
      return false;
  }
  if (length > bytes.size()) return false;
  content = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void AppendTag(int field, WireType type, std::string& out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | type, out);
}

}  // namespace

bool ReadPlanWire(absl::string_view bytes, PlanWire& wire) {
  absl::string_view rest = bytes;
  const char* piece = rest.data();  // Begin of the piece of `asked` that is being read.
  absl::string_view last;           // The piece before.
  const auto end_piece = [&](const char* end) {
    const absl::string_view read(piece, static_cast<size_t>(end - piece));
    if (read.empty()) return;
    if (!wire.joined.empty() || !last.empty()) {
      if (wire.joined.empty()) wire.joined = std::string(last);
      wire.joined.append(read.data(), read.size());
    }
    last = read;
  };
  while (!rest.empty()) {
    const char* const begin = rest.data();
    uint64_t tag = 0;
    uint64_t number = 0;
    absl::string_view content;
    if (!TakeVarint(rest, tag)) return false;
    const auto type = static_cast<int>(tag & 7);
    if (!TakeValue(rest, type, number, content)) return false;
    const bool is_id = tag >> 3 == v1::PlanRequest::kRequestIdFieldNumber && type == kLength;
    const bool is_policy = tag >> 3 == v1::PlanRequest::kCachePolicyFieldNumber && type == kVarint;
    if (!is_id && !is_policy) continue;
    end_piece(begin);
    piece = rest.data();
    if (is_id) wire.request_id = content;
    if (is_policy) wire.policy = static_cast<v1::CachePolicy>(number);
  }
  end_piece(rest.data());
  wire.asked = wire.joined.empty() ? last : absl::string_view(wire.joined);
  return true;
}

std::string ResponseHead(absl::string_view request_id, v1::AnswerSource source) {
  std::string head;
  head.reserve(request_id.size() + 16);
  if (!request_id.empty()) {
    AppendTag(v1::PlanResponse::kRequestIdFieldNumber, kLength, head);
    AppendVarint(request_id.size(), head);
    head.append(request_id.data(), request_id.size());
  }
  if (source != v1::ANSWER_SOURCE_UNSPECIFIED) {
    AppendTag(v1::PlanResponse::kSourceFieldNumber, kVarint, head);
    AppendVarint(static_cast<uint64_t>(source), head);
  }
  return head;
}

}  // namespace hapmoe::server
