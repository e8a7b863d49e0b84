#include "client/layer_import.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

// A degree and a micro-batch.
using Point = std::pair<int64_t, int64_t>;
struct Seconds {
  double forward = 0;
  double backward = 0;
};
using Times = std::map<Point, Seconds>;

constexpr int64_t kMaxCount = 1 << 20;
constexpr double kMaxSeconds = 3600;

absl::Status Fault(const std::string& file, absl::string_view place, absl::string_view what) {
  return absl::InvalidArgumentError(
      Printable(absl::StrCat(file, ": ", place.empty() ? "the file" : place, " ", what)));
}

bool IsCount(absl::string_view text, int64_t& count) {
  return absl::SimpleAtoi(text, &count) && count >= 1 && count <= kMaxCount;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<double> Time(const Value& value, double unit, const std::string& file,
                            const std::string& place) {
  const double seconds = value.number_value() * unit;
  if (value.kind_case() != Value::kNumberValue || !(seconds > 0 && seconds <= kMaxSeconds)) {
    return Fault(file, place, "must be a time above 0 and at most an hour");
  }
  return seconds;
}

absl::StatusOr<Seconds> SailorLayers(const Struct& layers, const std::string& file,
                                     const std::string& place) {
  const int64_t count = layers.fields_size();
  if (count < 3) {
    return Fault(file, place, "must hold an embedding, decoder layers and a head");
  }
  std::vector<double> forward;
  std::vector<double> backward;
  for (int64_t i = 1; i + 1 < count; ++i) {
    const std::string at = absl::StrCat(place, "/", i);
    const auto layer = layers.fields().find(absl::StrCat(i));
    if (layer == layers.fields().end() || layer->second.list_value().values_size() != 3) {
      return Fault(file, at, "must be [forward, backward, update]");
    }
    const ListValue& passes = layer->second.list_value();
    const absl::StatusOr<double> first = Time(passes.values(0), 1, file, at + "/0");
    if (!first.ok()) return first.status();
    const absl::StatusOr<double> second = Time(passes.values(1), 1, file, at + "/1");
    if (!second.ok()) return second.status();
    forward.push_back(*first);
    backward.push_back(*second);
  }
  return Seconds{Median(std::move(forward)), Median(std::move(backward))};
}

absl::StatusOr<Times> SailorTimes(const Struct& root, const std::string& file) {
  Times times;
  for (const auto& [batch, degrees] : root.fields()) {
    const std::string outer = "/" + batch;
    int64_t micro_batch = 0;
    if (!IsCount(batch, micro_batch) || !degrees.has_struct_value()) {
      return Fault(file, outer, "must be a micro-batch with an object of tensor parallel degrees");
    }
    for (const auto& [degree, layers] : degrees.struct_value().fields()) {
      const std::string inner = absl::StrCat(outer, "/", degree);
      int64_t tp = 0;
      if (!IsCount(degree, tp) || !layers.has_struct_value()) {
        return Fault(file, inner, "must be a tensor parallel degree with an object of layers");
      }
      const absl::StatusOr<Seconds> seconds = SailorLayers(layers.struct_value(), file, inner);
      if (!seconds.ok()) return seconds.status();
      times[{tp, micro_batch}] = *seconds;
    }
  }
  return times;
}

// Reads the two counts of "..._tpT_bsB.json".
bool PointOfName(absl::string_view name, Point& point) {
  if (!absl::ConsumeSuffix(&name, ".json")) return false;
  const size_t batch = name.rfind("_bs");
  if (batch == absl::string_view::npos) return false;
  const size_t tp = name.rfind("_tp", batch);
  if (tp == absl::string_view::npos || tp + 3 > batch) return false;
  return IsCount(name.substr(tp + 3, batch - tp - 3), point.first) &&
         IsCount(name.substr(batch + 3), point.second);
}

absl::StatusOr<Times> MetisTimes(const Struct& root, const std::string& file) {
  Point point;
  if (!PointOfName(file, point)) {
    return Fault(file, "", "must be named DeviceType.NAME_tpT_bsB.json");
  }
  const std::string place = "/execution_time/layer_compute_total_ms";
  const auto part = root.fields().find("execution_time");
  if (part == root.fields().end() || !part->second.has_struct_value()) {
    return Fault(file, "/execution_time", "must be an object");
  }
  const auto& fields = part->second.struct_value().fields();
  const auto list = fields.find("layer_compute_total_ms");
  if (list == fields.end() || list->second.list_value().values_size() < 3) {
    return Fault(file, place, "must list an embedding, decoder layers and a head");
  }
  const ListValue& layers = list->second.list_value();
  std::vector<double> both;
  for (int i = 1; i + 1 < layers.values_size(); ++i) {
    const absl::StatusOr<double> time =
        Time(layers.values(i), 1e-3, file, absl::StrCat(place, "/", i));
    if (!time.ok()) return time.status();
    both.push_back(*time);
  }
  const double seconds = Median(std::move(both));
  return Times{{point, {seconds / 3, seconds * 2 / 3}}};
}

// Reads the counts of "layertype_0_bszB_seqS". False for any other key.
bool PointOfKey(absl::string_view key, int64_t& micro_batch, int64_t& sequence) {
  if (!absl::ConsumePrefix(&key, "layertype_0_bsz")) return false;
  const size_t middle = key.find("_seq");
  return middle != absl::string_view::npos && IsCount(key.substr(0, middle), micro_batch) &&
         IsCount(key.substr(middle + 4), sequence);
}

absl::StatusOr<Times> GalvatronTimes(const Struct& root, int64_t sequence_length,
                                     const std::string& file) {
  Times times;
  std::set<int64_t> others;
  for (const auto& [key, value] : root.fields()) {
    int64_t micro_batch = 0;
    int64_t sequence = 0;
    if (!PointOfKey(key, micro_batch, sequence)) continue;
    if (sequence != sequence_length) {
      others.insert(sequence);
      continue;
    }
    const absl::StatusOr<double> sample = Time(value, 1e-3, file, "/" + key);
    if (!sample.ok()) return sample.status();
    const double forward = *sample * static_cast<double>(micro_batch);
    if (forward > kMaxSeconds) return Fault(file, "/" + key, "times its samples exceeds an hour");
    times[{1, micro_batch}] = {forward, 2 * forward};
  }
  if (!times.empty()) return times;
  if (!others.empty()) {
    return Fault(file, "",
                 absl::StrCat("holds sequences of ", absl::StrJoin(others, ", "),
                              " tokens, not of ", sequence_length));
  }
  if (root.fields().count("other_memory_pp_off") > 0) {
    return Fault(file, "", "is a memory profile: the planner computes memory and imports times");
  }
  return Fault(file, "", "holds no layertype_0_bszB_seqS");
}

}  // namespace

absl::Status ImportLayers(LayerFormat format, const std::string& path, absl::string_view text,
                          v1::LayerTable& table) {
  Struct root;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text.data(), text.size()), &root);
  if (!parsed.ok()) {
    return Fault(path, "",
                 absl::StrCat("must be a JSON object: ",
                              absl::string_view(parsed.message().data(), parsed.message().size())));
  }
  const absl::StatusOr<Times> times = format == LayerFormat::kSailor ? SailorTimes(root, path)
                                      : format == LayerFormat::kMetis
                                          ? MetisTimes(root, path)
                                          : GalvatronTimes(root, table.sequence_length(), path);
  if (!times.ok()) return times.status();
  if (times->empty()) return Fault(path, "", "holds no layer times");
  for (const auto& [point, seconds] : *times) {
    int row = 0;
    while (row < table.micro_batch_size() &&
           (table.tensor_parallel(row) != point.first || table.micro_batch(row) != point.second)) {
      ++row;
    }
    if (row == table.micro_batch_size()) {
      table.add_tensor_parallel(point.first);
      table.add_micro_batch(point.second);
      table.add_forward_microseconds(0);
      table.add_backward_microseconds(0);
    }
    table.set_forward_microseconds(row, seconds.forward * 1e6);
    table.set_backward_microseconds(row, seconds.backward * 1e6);
  }
  return absl::OkStatus();
}

v1::LayerTable& TableOfShape(const v1::LayerTable& shape, v1::AcceleratorProfile& profile) {
  const auto key = [](const v1::LayerTable& table) {
    return std::make_tuple(table.hidden_size(), table.ffn_hidden_size(), table.gated_mlp(),
                           table.attention_heads(), table.query_groups(), table.sequence_length(),
                           table.precision(), table.includes_tensor_communication());
  };
  for (v1::LayerTable& table : *profile.mutable_layers()) {
    if (key(table) == key(shape)) return table;
  }
  v1::LayerTable& added = *profile.add_layers();
  added = shape;
  return added;
}

}  // namespace hapmoe::client
