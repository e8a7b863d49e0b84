// hapmoe profiles import: layer times of other planners, merged into a profile file.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/layer_import.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;

absl::Status Checked(const Options& options) {
  for (const auto& [given, name] : {std::pair{!options.format.empty(), "--format"},
                                    {!options.accelerator.empty(), "--accelerator"},
                                    {!options.into.empty(), "--into"},
                                    {options.layer.hidden_size() > 0, "--hidden-size"},
                                    {options.layer.ffn_hidden_size() > 0, "--ffn-hidden-size"},
                                    {options.layer.attention_heads() > 0, "--attention-heads"},
                                    {options.layer.sequence_length() > 0, "--seq-length"},
                                    {options.layer.precision() != 0, "--precision"}}) {
    if (!given) return absl::InvalidArgumentError(absl::StrCat("profiles import needs ", name));
  }
  return absl::OkStatus();
}

// A reader of `path` sees the old text or the new one, never a part.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
  }
  return absl::OkStatus();
}

absl::Status Import(const Options& options, const Console& console) {
  if (absl::Status status = Checked(options); !status.ok()) return status;
  absl::StatusOr<std::string> text = ReadFile(options.into, console.in, kMaxFileBytes);
  if (!text.ok()) return text.status();
  v1::AcceleratorProfile profile;
  if (!google::protobuf::util::JsonStringToMessage(*text, &profile).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(options.into, ": not a profile"));
  }
  if (!absl::EqualsIgnoreCase(profile.accelerator(), options.accelerator)) {
    return absl::InvalidArgumentError(absl::StrCat(options.into, ": is of ",
                                                   Printable(profile.accelerator()), ", not of ",
                                                   options.accelerator));
  }
  v1::LayerTable shape = options.layer;
  if (shape.query_groups() == 0) shape.set_query_groups(shape.attention_heads());
  v1::LayerTable& table = TableOfShape(shape, profile);
  const LayerFormat format = options.format == "sailor"  ? LayerFormat::kSailor
                             : options.format == "metis" ? LayerFormat::kMetis
                                                         : LayerFormat::kGalvatron;
  for (size_t i = 1; i < options.words.size(); ++i) {
    absl::StatusOr<std::string> times = ReadFile(options.words[i], console.in, kMaxFileBytes);
    if (!times.ok()) return times.status();
    absl::Status status = ImportLayers(format, options.words[i], *times, table);
    if (!status.ok()) return status;
  }
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = true;
  print.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(profile, &json, print).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(options.into, ": has no JSON form"));
  }
  absl::Status status = Replace(options.into, json);
  if (status.ok()) {
    console.out << options.into << ": " << CountOf(table.micro_batch_size(), "layer time") << "\n";
  }
  return status;
}

}  // namespace

ExitCode RunImport(const Options& options, const Console& console) {
  const absl::Status status = Import(options, console);
  return status.ok() ? kDone : ReportUsage(status, console);
}

}  // namespace hapmoe::client
