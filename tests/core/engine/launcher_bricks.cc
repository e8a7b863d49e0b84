#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "tests/core/engine/launcher_cases.h"

namespace hapmoe::engine {

using model::Recompute;
using plan::Degrees;
using plan::Mesh;
using plan::Plan;
using plan::Stage;

absl::StatusOr<RenderedCase> Render(const LauncherCase& launcher_case) {
  Violations violations;
  RenderedCase rendered;
  rendered.arguments = Arguments::Parse(launcher_case.argv, violations);
  if (!violations.empty()) return absl::InvalidArgumentError(violations.front().message);
  HAPMOE_ASSIGN_OR_RETURN(rendered.nodes,
                          plan::AssignNodes(launcher_case.plan, launcher_case.cluster));
  LauncherInput input{
      rendered.arguments,  launcher_case.plan,         launcher_case.cluster,     rendered.nodes,
      launcher_case.entry, launcher_case.environments, launcher_case.requirements};
  HAPMOE_ASSIGN_OR_RETURN(rendered.artifacts, RenderLauncher(input));
  return rendered;
}

std::vector<std::string> SplitWords(const std::string& text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

cluster::Pool PoolOf(std::string name, int64_t nodes, int64_t accelerators_per_node) {
  cluster::Pool pool;
  pool.name = std::move(name);
  pool.accelerator = pool.name;
  pool.nodes = nodes;
  pool.accelerators_per_node = accelerators_per_node;
  return pool;
}

Recompute NoRecompute() { return {}; }

Recompute Selective(uint32_t modules) {
  Recompute recompute;
  recompute.granularity = Recompute::Granularity::kSelective;
  recompute.modules = modules;
  return recompute;
}

Recompute FullBlock(int64_t layers) {
  Recompute recompute;
  recompute.granularity = Recompute::Granularity::kFull;
  recompute.num_layers = layers;
  return recompute;
}

Recompute FullUniform(int64_t layers) {
  Recompute recompute = FullBlock(layers);
  recompute.method = Recompute::Method::kUniform;
  return recompute;
}

Stage StageOf(int64_t layers, Recompute recompute, int64_t mtp_layers) {
  return {{{0, layers, false, mtp_layers, false}}, recompute};
}

Plan PlanOf(const Degrees& degrees, int64_t micro_batch, int64_t global_batch,
            std::vector<Mesh> meshes, bool sequence_parallel) {
  Plan result;
  result.meshes = std::move(meshes);
  int64_t next = 0;
  for (Mesh& mesh : result.meshes) {
    mesh.degrees = degrees;
    for (Stage& stage : mesh.stages) {
      for (plan::Chunk& chunk : stage.chunks) {
        chunk.first_layer = next;
        next += chunk.layers;
      }
    }
  }
  result.meshes.front().stages.front().chunks.front().embedding = true;
  result.meshes.back().stages.back().chunks.back().loss = true;
  result.micro_batch = micro_batch;
  result.global_batch = global_batch;
  result.micro_batches = global_batch / (micro_batch * degrees.dp);
  result.sequence_parallel = sequence_parallel;
  return result;
}

std::vector<std::string> HostileWords() {
  std::vector<std::string> words = {"a b",
                                    " ",
                                    "",
                                    "'",
                                    "\"",
                                    "''\"\"'",
                                    "\\",
                                    "\\'",
                                    "a\nb",
                                    "\n",
                                    "\r\n",
                                    "\t",
                                    "$(touch pwned)",
                                    "`touch pwned`",
                                    "$HOME",
                                    "${HOME}",
                                    "; touch pwned",
                                    "&& touch pwned",
                                    "| touch pwned",
                                    "> pwned",
                                    "* ? [a-z] {a,b}",
                                    "~",
                                    "!!",
                                    "#x",
                                    "=",
                                    "a=b",
                                    "%s%n",
                                    "(x)",
                                    "'; touch pwned; '",
                                    "'$(touch pwned)'",
                                    "\\'; touch pwned; \\'",
                                    "EOF",
                                    ")\ntouch pwned\n(",
                                    "-",
                                    "--",
                                    "-n",
                                    "-e x",
                                    "--lr",
                                    "--lr=1",
                                    "\xe6\xa8\xa1\xe5\x9e\x8b \xf0\x9f\x9a\x80",
                                    "\xff\xfe not UTF-8",
                                    "\xe2\x80\xa8"};
  std::string bytes;
  for (int c = 1; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  words.push_back(bytes);
  return words;
}

}  // namespace hapmoe::engine
