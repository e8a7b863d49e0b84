// Checks manifests of Kubernetes against the fields and types of kubernetes_models.json.
#ifndef HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_MANIFEST_MODEL_H_
#define HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_MANIFEST_MODEL_H_

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace hapmoe::engine {

class ManifestModel {
 public:
  // Throws what yaml-cpp throws.
  explicit ManifestModel(const std::string& path) : types_(YAML::LoadFile(path)["types"]) {}

  // Every fault, as "path: what is wrong".
  std::vector<std::string> Check(const YAML::Node& manifest, const std::string& type) const;

 private:
  void CheckValue(const YAML::Node& value, std::string type, const std::string& path,
                  std::vector<std::string>& faults) const;
  void CheckObject(const YAML::Node& value, const std::string& type, const std::string& path,
                   std::vector<std::string>& faults) const;

  YAML::Node types_;
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_MANIFEST_MODEL_H_
