#include "tests/bench/sailor/profile.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::bench::sailor {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// Reads what must be there and remembers the first thing that was not.
class Reader {
 public:
  const Struct& Object(const Struct& parent, const std::string& name) {
    static const Struct& empty = *new Struct;
    const auto field = parent.fields().find(name);
    if (field != parent.fields().end() && field->second.has_struct_value()) {
      return field->second.struct_value();
    }
    Fail(absl::StrCat("no object \"", name, "\""));
    return empty;
  }
  double Number(const Struct& parent, const std::string& name) {
    const auto field = parent.fields().find(name);
    if (field != parent.fields().end() && field->second.has_number_value()) {
      return field->second.number_value();
    }
    Fail(absl::StrCat("no number \"", name, "\""));
    return 0;
  }
  std::vector<double> Numbers(const Struct& parent, const std::string& name, int count) {
    std::vector<double> numbers;
    const auto field = parent.fields().find(name);
    if (field != parent.fields().end()) {
      for (const Value& value : field->second.list_value().values()) {
        numbers.push_back(value.number_value());
      }
    }
    if (static_cast<int>(numbers.size()) != count) {
      Fail(absl::StrCat("\"", name, "\" does not hold ", count, " numbers"));
      numbers.resize(static_cast<size_t>(count));
    }
    return numbers;
  }
  int Key(const std::string& key) {
    int number = 0;
    if (!absl::SimpleAtoi(key, &number) || number < 1) Fail(absl::StrCat("bad key \"", key, "\""));
    return number;
  }
  void Fail(std::string what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(what));
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

bool IsTensorDegree(int degree) {
  return std::find(kTensorDegrees.begin(), kTensorDegrees.end(), degree) != kTensorDegrees.end();
}

void ReadSizes(Reader& reader, const Struct& root, Profile& profile) {
  for (const auto& [key, list] : reader.Object(root, "per_layer").fields()) {
    const int tp = reader.Key(key);
    LayerSizes& sizes = profile.sizes[tp];
    if (list.list_value().values_size() != profile.layers) reader.Fail("per_layer misses layers");
    for (const Value& layer : list.list_value().values()) {
      const Struct& fields = layer.struct_value();
      sizes.parameters.push_back(reader.Number(fields, "params_floats"));
      sizes.activations.push_back(reader.Number(fields, "act_mem_floats"));
      if (tp == 1) profile.outputs.push_back(reader.Number(fields, "act_output_floats"));
    }
  }
  for (const int tp : kTensorDegrees) {
    if (!profile.sizes.contains(tp)) reader.Fail("per_layer misses a degree");
  }
}

void ReadTimes(Reader& reader, const Struct& root, Profile& profile) {
  for (AcceleratorType& type : profile.types) {
    for (const auto& [micro_batch, by_degree] : reader.Object(root, type.name).fields()) {
      for (const auto& [degree, value] : by_degree.struct_value().fields()) {
        const int tp = reader.Key(degree);
        if (!IsTensorDegree(tp)) continue;  // Wider than a node.
        const Struct& lists = value.struct_value();
        LayerTimes& times = type.times[{reader.Key(micro_batch), tp}];
        times.pass = reader.Numbers(lists, "fwd", profile.layers);
        const std::vector<double> backward = reader.Numbers(lists, "bwd", profile.layers);
        for (size_t i = 0; i < backward.size(); ++i) times.pass[i] += backward[i];
        times.update = reader.Numbers(lists, "update", profile.layers);
      }
    }
  }
}

void ReadLinks(Reader& reader, const Struct& root, Profile& profile) {
  const int types = static_cast<int>(profile.types.size());
  const auto name = [&](int type) { return profile.types[static_cast<size_t>(type)].name; };
  for (int from = 0; from < types; ++from) {
    const Struct& of_sender = reader.Object(root, name(from));
    for (const int from_tp : kTensorDegrees) {
      const Struct& of_degree = reader.Object(of_sender, absl::StrCat(from_tp));
      for (int to = 0; to < types; ++to) {
        const Struct& of_receiver = reader.Object(of_degree, name(to));
        for (const int to_tp : kTensorDegrees) {
          const std::vector<double> poly =
              reader.Numbers(reader.Object(of_receiver, absl::StrCat(to_tp)), "poly", 3);
          profile.links[{from, from_tp, to, to_tp}] = {poly[0], poly[1], poly[2]};
        }
      }
    }
  }
}

}  // namespace

double Bandwidth::Seconds(double bytes) const {
  if (bytes <= 0) return 0;
  const double x = std::log2(bytes / 1e6);
  return bytes / 1e9 / ((a * x + b) * x + c);
}

int Profile::TypeOf(absl::string_view name) const {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<Profile> ParseProfile(absl::string_view json) {
  Struct root;
  if (!google::protobuf::util::JsonStringToMessage(std::string(json), &root).ok()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  Reader reader;
  Profile profile;
  profile.layers = static_cast<int>(reader.Number(root, "layers"));
  if (reader.Number(root, "dtype_bytes") != 4) reader.Fail("not of four bytes a number");
  const Struct& memory = reader.Object(root, "gpu_memory_bytes");
  for (const auto& [name, bytes] : memory.fields()) {
    profile.types.push_back({name, bytes.number_value(), {}});
  }
  // The fields of a message come in no order.
  std::sort(profile.types.begin(), profile.types.end(),
            [](const AcceleratorType& a, const AcceleratorType& b) { return a.name < b.name; });
  ReadSizes(reader, root, profile);
  ReadTimes(reader, reader.Object(root, "time_s"), profile);
  ReadLinks(reader, reader.Object(root, "p2p"), profile);
  if (!reader.status().ok()) return reader.status();
  return profile;
}

double AllReduceSeconds(const Bandwidth& link, double bytes, int64_t replicas) {
  constexpr double kBucketBytes = 500e6;
  if (replicas <= 1) return 0;
  const double n = static_cast<double>(replicas);
  double seconds = 0;
  for (double left = bytes; left > 0; left -= kBucketBytes) {
    seconds += 2 * (n - 1) * link.Seconds(std::min(left, kBucketBytes) / n);
  }
  return seconds;
}

double MemoryBytes(double parameters, double activations, int64_t micro_batch, int64_t in_flight,
                   int tp) {
  // Adam's two moments, the parameters, the gradients, buffers and the engine's copy.
  constexpr double kBytesOfParameter = 4 * 2 + 4 + 4 + 4 + 4;
  const double framework = tp == 1 ? 2e9 : 3e9;
  return parameters * kBytesOfParameter +
         activations * 4 * static_cast<double>(micro_batch * in_flight) + framework;
}

}  // namespace hapmoe::bench::sailor
