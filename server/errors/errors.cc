#include "server/errors/errors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hapmoe::server {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/";
constexpr size_t kMaxTextBytes = 512;
// Of a list of details. The message repeats part of it, and both travel in base64 at worst.
constexpr size_t kMaxListBytes = 3500;
// Of suggested changes, which travel beside a description, its subject and the metadata.
constexpr size_t kMaxChangesBytes = 2000;

// At most `limit` bytes of a text, never half a UTF-8 character.
std::string Cut(absl::string_view text, size_t limit = kMaxTextBytes) {
  if (text.size() <= limit) return std::string(text);
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

// What of a list of changes fits a trailer beside all else that tells of a failure.
v1::SuggestedChanges CutChanges(const v1::SuggestedChanges& changes) {
  v1::SuggestedChanges cut = changes;
  for (auto* list : {cut.mutable_alternatives(), cut.mutable_together()}) {
    for (v1::SuggestedChange& change : *list) {
      change.set_subject(Cut(change.subject(), 128));
      change.set_sentence(Cut(change.sentence()));
    }
  }
  // A part of what is needed together would not be enough.
  if (cut.ByteSizeLong() > kMaxChangesBytes) cut.clear_together();
  while (cut.ByteSizeLong() > kMaxChangesBytes) cut.mutable_alternatives()->RemoveLast();
  return cut;
}

google::rpc::RetryInfo RetryAfter(std::chrono::milliseconds time) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(time.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(time.count() % 1000 * 1'000'000));
  return retry;
}

// Rounded up.
int64_t Mebibytes(int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

std::string TypeUrl(const google::protobuf::Message& message) {
  return absl::StrCat(kTypePrefix, message.GetDescriptor()->full_name());
}

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload(TypeUrl(info));
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

}  // namespace

void AddDetail(const google::protobuf::Message& detail, absl::Status& status) {
  status.SetPayload(TypeUrl(detail), absl::Cord(detail.SerializeAsString()));
}

absl::Status Error(Reason reason, absl::string_view detail, const Metadata& metadata) {
  const ReasonFacts& facts = Facts(reason);
  absl::Status status(facts.code, detail.empty() ? std::string(facts.text)
                                                 : absl::StrCat(facts.text, " ", Cut(detail)));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(facts.wire));
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = Cut(value);
  AddDetail(info, status);
  return status;
}

absl::Status InvalidError(Reason reason, const Violations& violations) {
  google::rpc::BadRequest bad_request;
  for (const Violation& violation : violations) {
    auto* fault = bad_request.add_field_violations();
    fault->set_field(Cut(violation.field, 128));
    fault->set_reason(violation.rule);
    fault->set_description(Cut(violation.message));
    if (bad_request.ByteSizeLong() > kMaxListBytes) {
      bad_request.mutable_field_violations()->RemoveLast();
      break;
    }
  }
  const std::string first =
      absl::StrCat(Cut(violations.front().field, 128), ": ", violations.front().message);
  const std::string count = violations.size() == 1
                                ? std::string()
                                : absl::StrCat(" (the first of ", violations.size(), " faults)");
  absl::Status status =
      Error(reason, absl::StrCat(Cut(first, 400), count),
            {{"violations", absl::StrCat(violations.size())},
             {"violations_shown", absl::StrCat(bad_request.field_violations_size())}});
  AddDetail(bad_request, status);
  return status;
}

absl::Status ProfileNotFoundError(const std::vector<MissingProfile>& missing) {
  std::vector<std::string> sentences;
  std::vector<std::string> names;
  Metadata metadata;
  google::rpc::ResourceInfo resource;
  for (size_t i = 0; i < missing.size(); ++i) {
    const std::string nearest = absl::StrJoin(missing[i].nearest, ", ");
    const std::string hint =
        nearest.empty() ? "" : absl::StrCat(" The nearest are: ", nearest, ".");
    names.push_back(Cut(missing[i].accelerator, 64));
    if (i < 8) {
      sentences.push_back(
          absl::StrCat("\"", Cut(missing[i].accelerator, 64), "\" is not known.", hint));
    }
    if (i == 0) {
      resource.set_resource_type("hapmoe.v1.AcceleratorProfile");
      resource.set_resource_name(Cut(missing[i].accelerator, 64));
      resource.set_description(absl::StrCat("No profile of this type is known.", hint));
      metadata["accelerator"] = missing[i].accelerator;
      metadata["nearest"] = nearest;
    }
  }
  metadata["missing"] = absl::StrJoin(names, ", ");
  absl::Status status = Error(Reason::kProfileNotFound, absl::StrJoin(sentences, " "), metadata);
  AddDetail(resource, status);
  return status;
}

absl::Status NoPlanFitsError(const BindingConstraint& binding) {
  google::rpc::PreconditionFailure failure;
  auto* violation = failure.add_violations();
  violation->set_type(Cut(binding.rule, 128));
  violation->set_subject(Cut(binding.subject, 128));
  violation->set_description(Cut(binding.description));
  Metadata metadata = {{"rule", binding.rule}};
  if (binding.bytes_short > 0) {
    metadata["bytes_short"] = absl::StrCat(static_cast<int64_t>(binding.bytes_short));
  }
  if (!binding.subject.empty()) metadata["subject"] = binding.subject;
  if (!binding.suggestion.empty()) metadata["suggestion"] = binding.suggestion;
  const v1::SuggestedChanges changes = CutChanges(binding.changes);
  const int found = binding.changes.alternatives_size() + binding.changes.together_size();
  if (found > 0) {
    metadata["changes"] = absl::StrCat(found);
    metadata["changes_shown"] = absl::StrCat(changes.alternatives_size() + changes.together_size());
  }
  absl::Status status = Error(
      Reason::kNoPlanFits,
      absl::StrCat(binding.description, binding.suggestion.empty() ? "" : " ", binding.suggestion),
      metadata);
  AddDetail(failure, status);
  if (found > 0) AddDetail(changes, status);
  return status;
}

absl::Status StorageError(const absl::Status& cause) {
  return Error(Reason::kStorageFailed,
               absl::IsUnknown(cause)
                   ? "Whether the change was made is not known."
                   : absl::StrCat("Nothing was changed (", absl::StatusCodeToString(cause.code()),
                                  "). Plans are still made with what was stored before."));
}

absl::Status QueueFullError(std::chrono::milliseconds retry_after) {
  absl::Status status =
      Error(Reason::kQueueFull, absl::StrCat("Try again in ", retry_after.count(), " ms."),
            {{"retry_after_milliseconds", absl::StrCat(retry_after.count())}});
  AddDetail(RetryAfter(retry_after), status);
  return status;
}

absl::Status SearchTooLargeError(const SearchMemory& memory,
                                 std::chrono::milliseconds retry_after) {
  const bool others = memory.wanted_bytes <= memory.most_alone_bytes;
  const std::string advice =
      others ? absl::StrCat("Other searches have what it lacks; try again in ", retry_after.count(),
                            " ms.")
             : "Ask for less, with degrees or micro-batches that are allowed, with fewer pools or "
               "without idle accelerators, or start the server with more --max_search_memory.";
  Metadata metadata = {{"wanted_bytes", absl::StrCat(memory.wanted_bytes)},
                       {"most_bytes_of_one_search", absl::StrCat(memory.most_alone_bytes)},
                       {"max_search_memory", absl::StrCat(memory.most_bytes)}};
  if (others) metadata["retry_after_milliseconds"] = absl::StrCat(retry_after.count());
  absl::Status status = Error(
      Reason::kSearchTooLarge,
      absl::StrCat("It came to ", Mebibytes(memory.wanted_bytes), " MiB and had no plan yet; one ",
                   "search can have ", Mebibytes(memory.most_alone_bytes), " MiB, all together ",
                   Mebibytes(memory.most_bytes), " MiB. ", advice),
      metadata);
  if (others) AddDetail(RetryAfter(retry_after), status);
  return status;
}

google::rpc::Status ToWire(const absl::Status& status) {
  if (!status.ok() && !ErrorInfoOf(status).has_value())
    return ToWire(Error(Reason::kInternalFault));
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(std::string(status.message()));
  status.ForEachPayload([&wire](absl::string_view type_url, const absl::Cord& payload) {
    auto* detail = wire.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
  });
  // A status keeps its payloads in no order; an answer is the same each time.
  std::sort(wire.mutable_details()->begin(), wire.mutable_details()->end(),
            [](const auto& a, const auto& b) { return a.type_url() < b.type_url(); });
  return wire;
}

Reason ReasonOf(const absl::Status& status) {
  const std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (info.has_value()) {
    for (const ReasonFacts& facts : kReasons) {
      if (facts.wire == info->reason()) return facts.reason;
    }
  }
  return Reason::kInternalFault;
}

Violations ViolationsOf(const absl::Status& status) {
  google::rpc::BadRequest bad_request;
  Violations violations;
  const auto payload = status.GetPayload(TypeUrl(bad_request));
  if (!payload.has_value() || !bad_request.ParseFromString(std::string(*payload))) {
    return violations;
  }
  for (const auto& fault : bad_request.field_violations()) {
    violations.push_back({fault.reason(), fault.field(), fault.description()});
  }
  return violations;
}

std::string MetadataOf(const absl::Status& status, const std::string& key) {
  const std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (!info.has_value()) return std::string();
  const auto found = info->metadata().find(key);
  return found == info->metadata().end() ? std::string() : found->second;
}

}  // namespace hapmoe::server
