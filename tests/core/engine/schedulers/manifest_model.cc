#include "tests/core/engine/schedulers/manifest_model.h"

#include <cstdint>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hapmoe::engine {
namespace {

// What YAML takes a scalar for. Quoted ones are tagged "!".
bool IsWhole(const YAML::Node& value) {
  int64_t number = 0;
  return value.Tag() != "!" && absl::SimpleAtoi(value.Scalar(), &number);
}

bool IsTruth(const YAML::Node& value) {
  return value.Tag() != "!" && (value.Scalar() == "true" || value.Scalar() == "false");
}

bool IsString(const YAML::Node& value) {
  double number = 0;
  if (value.Tag() == "!") return true;
  return !IsTruth(value) && !absl::SimpleAtod(value.Scalar(), &number) && value.Scalar() != "~" &&
         value.Scalar() != "null";
}

bool IsAmount(const YAML::Node& value) {
  if (IsWhole(value)) return true;
  const std::string& text = value.Scalar();
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::set<std::string> units = {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u",
                                       "m",  "k",  "M",  "G",  "T",  "P",  "E", ""};
  return digits != 0 && !text.empty() &&
         units.count(digits == std::string::npos ? "" : text.substr(digits)) > 0;
}

}  // namespace

std::vector<std::string> ManifestModel::Check(const YAML::Node& manifest,
                                              const std::string& type) const {
  std::vector<std::string> faults;
  CheckValue(manifest, type, type, faults);
  return faults;
}

void ManifestModel::CheckValue(const YAML::Node& value, std::string type, const std::string& path,
                               std::vector<std::string>& faults) const {
  absl::string_view rest = type;
  if (absl::ConsumePrefix(&rest, "[]")) {
    if (!value.IsSequence()) return faults.push_back(path + ": no list");
    for (size_t i = 0; i < value.size(); ++i) {
      CheckValue(value[i], std::string(rest), absl::StrCat(path, "[", i, "]"), faults);
    }
    return;
  }
  if (absl::ConsumePrefix(&rest, "{}")) {
    if (!value.IsMap()) return faults.push_back(path + ": no map");
    for (const auto& entry : value) {
      CheckValue(entry.second, std::string(rest), path + "." + entry.first.Scalar(), faults);
    }
    return;
  }
  if (types_[type]) return CheckObject(value, type, path, faults);
  if (!value.IsScalar()) return faults.push_back(path + ": no " + type);
  if (absl::ConsumePrefix(&rest, "int:")) {
    int64_t least = 0, number = 0;
    const bool holds = absl::SimpleAtoi(rest, &least) && IsWhole(value) &&
                       absl::SimpleAtoi(value.Scalar(), &number) && number >= least &&
                       number <= std::numeric_limits<int32_t>::max();
    if (!holds) faults.push_back(absl::StrCat(path, ": ", value.Scalar(), " is no ", type));
  } else if (absl::ConsumePrefix(&rest, "enum:")) {
    const std::set<std::string> words = absl::StrSplit(rest, '|');
    if (words.count(value.Scalar()) == 0 || !IsString(value)) {
      faults.push_back(absl::StrCat(path, ": ", value.Scalar(), " is none of ", rest));
    }
  } else {
    const bool holds = type == "string"     ? IsString(value)
                       : type == "bool"     ? IsTruth(value)
                       : type == "quantity" ? IsAmount(value)
                                            : false;
    if (!holds) faults.push_back(absl::StrCat(path, ": ", value.Scalar(), " is no ", type));
  }
}

void ManifestModel::CheckObject(const YAML::Node& value, const std::string& type,
                                const std::string& path, std::vector<std::string>& faults) const {
  if (!value.IsMap()) return faults.push_back(path + ": no " + type);
  const YAML::Node fields = types_[type]["fields"];
  std::set<std::string> present;
  for (const auto& entry : value) {
    const std::string& name = entry.first.Scalar();
    if (!present.insert(name).second) faults.push_back(path + "." + name + ": given twice");
    if (!fields[name]) {
      faults.push_back(path + "." + name + ": unknown");
      continue;
    }
    absl::string_view field = fields[name].Scalar();
    absl::ConsumeSuffix(&field, "!");
    CheckValue(entry.second, std::string(field), path + "." + name, faults);
  }
  for (const auto& field : fields) {
    if (absl::EndsWith(field.second.Scalar(), "!") && present.count(field.first.Scalar()) == 0) {
      faults.push_back(path + "." + field.first.Scalar() + ": missing");
    }
  }
}

}  // namespace hapmoe::engine
