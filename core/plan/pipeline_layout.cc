#include "core/plan/pipeline_layout.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hapmoe::plan {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Appends `unit` as often as the digits from `*at` say, and moves past them. False if the result
// would be too long.
bool AppendRepeated(absl::string_view unit, absl::string_view text, size_t* at, std::string* out) {
  size_t times = 0;
  while (*at < text.size() && IsDigit(text[*at])) {
    times = std::min(times * 10 + static_cast<size_t>(text[*at] - '0'), kMaxLayoutBytes + 1);
    ++*at;
  }
  if (out->size() + times * unit.size() > kMaxLayoutBytes) return false;
  for (size_t i = 0; i < times; ++i) absl::StrAppend(out, unit);
  return true;
}

// True if "*" and a digit stand at `at`.
bool RepetitionAt(absl::string_view text, size_t at) {
  return at + 1 < text.size() && text[at] == '*' && IsDigit(text[at + 1]);
}

// Writes out "(text)*n". Parentheses that are not of this form stay, and are found out later.
bool ExpandGroups(absl::string_view text, std::string* out) {
  size_t close = text.find(
      ')');  // The next ')', kept from one '(' to the next: one pass over the text in all.
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '(' && close != absl::string_view::npos && close < at) {
      close = text.find(')', at);
    }
    const bool opens = text[at] == '(' && close != absl::string_view::npos && close > at + 1;
    if (opens && RepetitionAt(text, close + 1)) {
      const absl::string_view unit = text.substr(at + 1, close - at - 1);
      at = close + 2;
      if (!AppendRepeated(unit, text, &at, out)) return false;
      continue;
    }
    out->push_back(text[at++]);
  }
  return out->size() <= kMaxLayoutBytes;
}

// Writes out "t*n" for any one letter.
bool ExpandLetters(absl::string_view text, std::string* out) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\n' && RepetitionAt(text, at + 1)) {
      const absl::string_view unit = text.substr(at, 1);
      at += 2;
      if (!AppendRepeated(unit, text, &at, out)) return false;
      continue;
    }
    out->push_back(text[at++]);
  }
  return out->size() <= kMaxLayoutBytes;
}

std::string Shown(char c) {
  if (c == ' ') return "a blank";
  if (absl::ascii_isgraph(static_cast<unsigned char>(c)))
    return absl::StrCat("'", std::string(1, c), "'");
  return absl::StrCat("byte ", static_cast<int>(static_cast<unsigned char>(c)));
}

// Decoder layers of each pipeline rank without a layout, before the layers that the embedding and
// the loss stand for are taken off.
std::vector<int64_t> LayersOfRanks(const ParallelSpec& parallel, int64_t layers) {
  std::vector<int64_t> ranks(static_cast<size_t>(parallel.pp));
  if (parallel.first_stage_layers.has_value() || parallel.last_stage_layers.has_value()) {
    int64_t middle_layers = layers;
    int64_t middle_ranks = parallel.pp;
    for (const auto& given : {parallel.first_stage_layers, parallel.last_stage_layers}) {
      if (!given.has_value()) continue;
      middle_layers -= *given;
      --middle_ranks;
    }
    const int64_t each = middle_ranks > 0 ? middle_layers / middle_ranks : 0;
    std::fill(ranks.begin(), ranks.end(), each);
    if (parallel.first_stage_layers.has_value()) ranks.front() = *parallel.first_stage_layers;
    if (parallel.last_stage_layers.has_value()) ranks.back() = *parallel.last_stage_layers;
    return ranks;
  }
  const int64_t counted =
      layers + (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
  std::fill(ranks.begin(), ranks.end(), counted / parallel.pp);
  return ranks;
}

}  // namespace

PipelineLayout ParsePipelineLayout(absl::string_view text) {
  PipelineLayout layout;
  std::string plain, grouped, letters;
  const auto too_long = [&layout] {
    layout.fault = absl::StrCat("The layout is longer than ", kMaxLayoutBytes, " letters.");
    return layout;
  };
  if (text.size() > kMaxLayoutBytes) return too_long();
  for (char c : text) {
    if (c != ',') plain.push_back(c);
  }
  if (!ExpandGroups(plain, &grouped) || !ExpandLetters(grouped, &letters)) return too_long();
  for (char c : letters) {
    if (absl::string_view("EtmL|").find(c) != absl::string_view::npos) continue;
    layout.fault = absl::StrCat("The layout holds ", Shown(c),
                                "; stages are written with E, t, m and L, and apart with '|'.");
    return layout;
  }
  layout.stages = absl::StrSplit(letters, '|');
  return layout;
}

int64_t VirtualStages(const ParallelSpec& parallel, int64_t layers, const PipelineLayout* layout) {
  const int64_t pp = std::max<int64_t>(parallel.pp, 1);
  if (parallel.layout.has_value()) {
    if (layout == nullptr || !layout->ok()) return 1;
    const int64_t stages = static_cast<int64_t>(layout->stages.size());
    return stages % pp == 0 ? stages / pp : 1;
  }
  if (parallel.virtual_stages_per_rank.has_value()) {
    return std::max<int64_t>(*parallel.virtual_stages_per_rank, 1);
  }
  if (parallel.layers_per_virtual_stage.value_or(0) < 1) return 1;
  const int64_t counted =
      layers + (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
  const int64_t each = counted / pp;
  const bool exact = counted % pp == 0 && each % *parallel.layers_per_virtual_stage == 0;
  return exact ? std::max<int64_t>(each / *parallel.layers_per_virtual_stage, 1) : 1;
}

std::vector<std::vector<Chunk>> SplitIntoStages(const ParallelSpec& parallel,
                                                const model::TransformerSpec& model) {
  PipelineLayout layout;
  if (parallel.layout.has_value()) layout = ParsePipelineLayout(*parallel.layout);
  const size_t pp = static_cast<size_t>(parallel.pp);
  const size_t virtual_stages = static_cast<size_t>(VirtualStages(parallel, model.layers, &layout));
  std::vector<std::vector<Chunk>> ranks(pp, std::vector<Chunk>(virtual_stages));
  Chunk& first = ranks.front().front();
  Chunk& last = ranks.back().back();
  if (parallel.layout.has_value()) {
    for (size_t i = 0; i < std::min(layout.stages.size(), pp * virtual_stages); ++i) {
      Chunk& chunk = ranks[i % pp][i / pp];
      chunk.layers = std::count(layout.stages[i].begin(), layout.stages[i].end(), 't');
      chunk.mtp_layers = std::count(layout.stages[i].begin(), layout.stages[i].end(), 'm');
    }
  } else {
    const std::vector<int64_t> layers = LayersOfRanks(parallel, model.layers);
    for (size_t rank = 0; rank < pp; ++rank) {
      for (Chunk& chunk : ranks[rank]) {
        chunk.layers = layers[rank] / static_cast<int64_t>(virtual_stages);
      }
    }
    // The embedding and the loss stand in for one layer each.
    if (parallel.account_for_embedding) --first.layers;
    if (parallel.account_for_loss) --last.layers;
    last.mtp_layers = model.mtp_layers;
  }
  first.embedding = true;
  last.loss = true;
  int64_t next = 0;
  for (size_t virtual_stage = 0; virtual_stage < virtual_stages; ++virtual_stage) {
    for (std::vector<Chunk>& chunks : ranks) {
      chunks[virtual_stage].first_layer = next;
      next += chunks[virtual_stage].layers;
    }
  }
  return ranks;
}

std::string PipelineLayoutString(absl::Span<const Stage> stages) {
  std::string text;
  const size_t virtual_stages = stages.empty() ? 0 : stages.front().chunks.size();
  for (size_t virtual_stage = 0; virtual_stage < virtual_stages; ++virtual_stage) {
    for (size_t rank = 0; rank < stages.size(); ++rank) {
      const Chunk& chunk = stages[rank].chunks[virtual_stage];
      if (virtual_stage + rank > 0) text.push_back('|');
      if (chunk.embedding) text.push_back('E');
      text.append(static_cast<size_t>(chunk.layers), 't');
      text.append(static_cast<size_t>(chunk.mtp_layers), 'm');
      if (chunk.loss) text.push_back('L');
    }
  }
  return text;
}

}  // namespace hapmoe::plan
