#include "client/router_stats_file.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

using google::protobuf::Value;

// Above it a double no longer tells neighbouring numbers apart.
constexpr double kMaxTokens = 9007199254740992;

absl::Status Fault(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(Printable(absl::StrCat(path, ": ", what)));
}

}  // namespace

absl::StatusOr<v1::RouterStatistics> ParseRouterStatistics(const std::string& path,
                                                           absl::string_view text) {
  Value root;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text.data(), text.size()), &root);
  if (!parsed.ok()) {
    return Fault(path, absl::StrCat("not JSON: ", absl::string_view(parsed.message().data(),
                                                                    parsed.message().size())));
  }
  if (root.kind_case() != Value::kListValue || root.list_value().values_size() == 0) {
    return Fault(path, "must be a list with one list of token counts for each layer with experts");
  }
  v1::RouterStatistics statistics;
  for (const Value& layer : root.list_value().values()) {
    const int l = statistics.layers_size();
    if (layer.kind_case() != Value::kListValue || layer.list_value().values_size() == 0) {
      return Fault(path, absl::StrCat("layer ", l, " must be a list of the tokens of each expert"));
    }
    v1::RouterStatistics::Layer& counts = *statistics.add_layers();
    for (const Value& count : layer.list_value().values()) {
      const double tokens = count.number_value();
      if (count.kind_case() != Value::kNumberValue ||
          !(tokens >= 0 && tokens <= kMaxTokens && tokens == std::floor(tokens))) {
        return Fault(path, absl::StrCat("layer ", l, ", expert ", counts.expert_tokens_size(),
                                        ": must be a whole number of tokens, 0 or more"));
      }
      counts.add_expert_tokens(static_cast<int64_t>(tokens));
    }
  }
  return statistics;
}

}  // namespace hapmoe::client
