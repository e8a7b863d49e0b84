#include "core/engine/megatron_options.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace hapmoe::engine {
namespace {

constexpr MegatronOption kOptions[] = {
#include "core/engine/megatron_options.inc"
};

// Found in published scripts, refused by the snapshot. "--retro-" stands for the whole family.
constexpr absl::string_view kRemoved[] = {
    "--moe-extended-tp",
    "--standalone-embedding-stage",
    "--encoder-tensor-model-parallel-size",
    "--encoder-pipeline-model-parallel-size",
    "--pipeline-model-parallel-split-rank",
    "--moe-use-legacy-grouped-gemm",
    "--use-legacy-models",
    "--no-async-tensor-model-parallel-allreduce",
    "--no-scatter-gather-tensors-in-pipeline",
    "--use-custom-fsdp",
    "--tokenizer-hf-use-fast",
    "--legacy-tokenizer",
    "--DDP-impl",
    "--activations-checkpoint-method",
};

using Index = absl::flat_hash_map<absl::string_view, const MegatronOption*>;

const Index& BySpelling() {
  static const Index* const index = [] {
    auto* made = new Index;
    for (const MegatronOption& option : kOptions) {
      for (absl::string_view flag : absl::StrSplit(option.flags, ' ')) made->emplace(flag, &option);
    }
    return made;
  }();
  return *index;
}

const Index& ByDest() {
  static const Index* const index = [] {
    auto* made = new Index;
    for (const MegatronOption& option : kOptions) made->emplace(option.dest, &option);
    return made;
  }();
  return *index;
}

constexpr size_t kLongestCompared = 80;

// Levenshtein distance of two short strings; `limit` if it is at least that.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  const size_t longer = std::max(a.size(), b.size());
  if (longer - std::min(a.size(), b.size()) >= limit) return limit;
  std::array<size_t, kLongestCompared + 1> row;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      least = std::min(least, row[j]);
    }
    if (least >= limit) return limit;  // No later row falls below.
  }
  return std::min(row[b.size()], limit);
}

}  // namespace

absl::Span<const MegatronOption> MegatronOptions() { return kOptions; }

const MegatronOption* FindMegatronOption(absl::string_view flag) {
  const auto found = BySpelling().find(flag);
  return found == BySpelling().end() ? nullptr : found->second;
}

const MegatronOption* FindMegatronOptionByDest(absl::string_view dest) {
  const auto found = ByDest().find(dest);
  return found == ByDest().end() ? nullptr : found->second;
}

bool IsRemovedMegatronOption(absl::string_view flag) {
  if (absl::StartsWith(flag, "--retro-")) return true;
  return std::find(std::begin(kRemoved), std::end(kRemoved), flag) != std::end(kRemoved);
}

absl::string_view NearestMegatronOption(absl::string_view flag) {
  if (flag.size() < 3 || flag.size() > kLongestCompared) return {};
  absl::string_view nearest;
  size_t best = std::min<size_t>(flag.size() / 3 + 1, 8);  // Further away is no help.
  for (const auto& [spelling, option] : BySpelling()) {
    if (spelling.size() > kLongestCompared) continue;
    // An abbreviation counts as nearer than any misspelling.
    const size_t distance = absl::StartsWith(spelling, flag) && flag.size() >= 6
                                ? 0
                                : EditDistance(flag, spelling, best + 1);
    // The order of a hash table varies from run to run; ties go to the first by length and name.
    const bool wins =
        distance < best || (distance == best && !nearest.empty() &&
                            (spelling.size() < nearest.size() ||
                             (spelling.size() == nearest.size() && spelling < nearest)));
    if (wins) {
      best = distance;
      nearest = spelling;
    }
  }
  return nearest;
}

}  // namespace hapmoe::engine
