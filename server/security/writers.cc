#include "server/security/writers.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/errors/errors.h"

namespace hapmoe::server {

absl::Status Writers::Check(const grpc::AuthContext* context) const {
  if (names_.empty()) return absl::OkStatus();
  std::vector<std::string> shown;
  if (context != nullptr) {
    for (const char* property : {GRPC_X509_SAN_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
      for (const grpc::string_ref& name : context->FindPropertyValues(property)) {
        shown.emplace_back(name.data(), name.size());
      }
    }
  }
  const bool writes = std::any_of(shown.begin(), shown.end(), [this](const std::string& name) {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  });
  if (writes) return absl::OkStatus();
  return Error(
      Reason::kNotPermitted,
      absl::StrCat("It is known as ", shown.empty() ? "nobody" : absl::StrJoin(shown, ", "), "."));
}

}  // namespace hapmoe::server
