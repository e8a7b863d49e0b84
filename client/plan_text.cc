#include "client/plan_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr auto kLeft = TextTable::Align::kLeft;
constexpr auto kRight = TextTable::Align::kRight;

// "3" or "3-7"; `count` is above 0.
std::string RangeText(int64_t first, int64_t count) {
  return count == 1 ? absl::StrCat(first) : absl::StrCat(first, "-", first + count - 1);
}

// What a stage holds, its virtual stages separated by "|": "embedding 0-2 | 12-14 loss".
std::string HoldsText(const v1::Stage& stage) {
  std::vector<std::string> chunks;
  for (const v1::Chunk& chunk : stage.chunks()) {
    std::vector<std::string> parts;
    if (chunk.embedding()) parts.push_back("embedding");
    if (chunk.layers() > 0) parts.push_back(RangeText(chunk.first_layer(), chunk.layers()));
    if (chunk.mtp_layers() > 0) parts.push_back(absl::StrCat(chunk.mtp_layers(), " mtp"));
    if (chunk.loss()) parts.push_back("loss");
    chunks.push_back(parts.empty() ? "nothing" : absl::StrJoin(parts, " "));
  }
  return absl::StrJoin(chunks, " | ");
}

// How many decoder layers a stage holds, by virtual stages: "8", or "4+4".
std::string StageLayersText(const v1::Stage& stage) {
  if (stage.chunks_size() < 2) return absl::StrCat(stage.layers());
  return absl::StrJoin(stage.chunks(), "+", [](std::string* out, const v1::Chunk& chunk) {
    absl::StrAppend(out, chunk.layers());
  });
}

std::string RecomputeText(const v1::Recompute& recompute) {
  if (recompute.granularity().empty() || recompute.granularity() == "none") return "none";
  std::string text = recompute.granularity();
  if (!recompute.modules().empty()) {
    absl::StrAppend(&text, " ", absl::StrJoin(recompute.modules(), ","));
  }
  if (!recompute.method().empty()) {
    absl::StrAppend(&text, " ", recompute.method(), " ", recompute.num_layers());
  }
  return Printable(text);
}

// Node ranks as runs: "0-3", "0,2,4".
std::string NodeRanksText(const google::protobuf::RepeatedField<int32_t>& ranks) {
  std::vector<std::string> runs;
  for (int i = 0; i < ranks.size();) {
    int end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    runs.push_back(RangeText(ranks[i], end - i));
    i = end;
  }
  return absl::StrJoin(runs, ",");
}

std::string MeshDegreesText(const v1::Mesh& mesh) {
  return absl::StrFormat("tp %d, cp %d, dp %d, ep %d, etp %d", mesh.tp(), mesh.cp(), mesh.dp(),
                         mesh.ep(), mesh.etp());
}

bool SameDegrees(const v1::Mesh& a, const v1::Mesh& b) {
  return a.tp() == b.tp() && a.cp() == b.cp() && a.dp() == b.dp() && a.ep() == b.ep() &&
         a.etp() == b.etp();
}

// One part of a whole.
struct Part {
  const char* name;
  double amount;
  std::string text;
};

// A line for every part that is not zero: name, amount, share, and a bar.
std::string PartsText(const std::vector<Part>& parts, double whole) {
  TextTable table({kLeft, kRight, kRight, kLeft});
  for (const Part& part : parts) {
    if (part.amount == 0) continue;
    const double share = part.amount / whole;
    const double ratio = std::isfinite(share) ? share : 0;
    const auto bar = static_cast<size_t>(std::lround(std::clamp(ratio, 0.0, 1.0) * 40));
    table.AddRow({part.name, part.text, PercentText(ratio), std::string(bar, '#')});
  }
  return table.Render(2);
}

std::string TimeText(const v1::TimeBreakdown& time, double whole) {
  std::vector<Part> parts = {
      {"compute", time.compute_seconds(), ""},
      {"recompute", time.recompute_seconds(), ""},
      {"tensor parallel", time.tensor_parallel_seconds(), ""},
      {"context parallel", time.context_parallel_seconds(), ""},
      {"expert parallel", time.expert_parallel_seconds(), ""},
      {"pipeline transfers", time.pipeline_seconds(), ""},
      {"host launches", time.launch_seconds(), ""},
      {"bubble", time.bubble_seconds(), ""},
      {"gradient sync", time.gradient_sync_seconds(), ""},
      {"optimizer", time.optimizer_seconds(), ""},
  };
  for (Part& part : parts) part.text = SecondsText(part.amount);
  return PartsText(parts, whole);
}

std::string MemoryText(const v1::MemoryBreakdown& memory) {
  const auto part = [](const char* name, int64_t bytes) {
    return Part{name, static_cast<double>(bytes),
                absl::StrCat(GibibytesText(static_cast<double>(bytes)), " GiB")};
  };
  return PartsText(
      {part("parameters", memory.parameters_bytes()), part("gradients", memory.gradients_bytes()),
       part("optimizer states", memory.optimizer_bytes()),
       part("product buffers", memory.placeholder_bytes()),
       part("activations", memory.activations_bytes()),
       part("working set", memory.working_set_bytes()),
       part("logits and loss", memory.logits_bytes()),
       part("expert dispatch", memory.dispatch_bytes()),
       part("allocator slack", memory.slack_bytes()),
       part("communication", memory.communication_bytes()),
       part("framework", memory.framework_bytes())},
      static_cast<double>(memory.peak_bytes()));
}

// The stage that is nearest to its budget, or null where there is none.
const v1::Stage* FullestStage(const v1::ExecutionPlan& plan) {
  const v1::Stage* fullest = nullptr;
  const auto fill = [](const v1::Stage& stage) {
    const v1::MemoryBreakdown& memory = stage.memory();
    return static_cast<double>(memory.peak_bytes()) /
           static_cast<double>(std::max<int64_t>(memory.budget_bytes(), 1));
  };
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      if (fullest == nullptr || fill(stage) > fill(*fullest)) fullest = &stage;
    }
  }
  return fullest;
}

}  // namespace

std::string DegreesText(const v1::ExecutionPlan& plan) {
  const bool uniform = std::all_of(plan.meshes().begin(), plan.meshes().end(),
                                   [&](const auto& m) { return SameDegrees(m, plan.meshes(0)); });
  std::vector<std::string> meshes;
  for (const v1::Mesh& mesh : plan.meshes()) {
    meshes.push_back(uniform ? MeshDegreesText(mesh)
                             : absl::StrCat(Printable(mesh.pool()), " (", MeshDegreesText(mesh),
                                            ", ", CountOf(mesh.stages_size(), "stage"), ")"));
    if (uniform) break;
  }
  const int64_t virtual_stages = plan.virtual_stages_per_rank();
  return absl::StrCat(absl::StrJoin(meshes, "; "), ", pp ", plan.pipeline_stages(),
                      virtual_stages > 1 ? absl::StrCat(", vp ", virtual_stages) : "",
                      plan.token_dispatcher().empty()
                          ? ""
                          : absl::StrCat(", ", Printable(plan.token_dispatcher())));
}

std::string LayersText(const v1::ExecutionPlan& plan) {
  std::vector<int32_t> layers;
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) layers.push_back(stage.layers());
  }
  return absl::StrJoin(layers, " ");
}

std::string PlanText(const v1::ExecutionPlan& plan) {
  std::string text =
      absl::StrCat("Plan ", Printable(plan.plan_id()), " for ", Printable(plan.engine()), ": ",
                   CountOf(plan.world_size(), "accelerator"));
  if (plan.idle_accelerators() > 0) {
    absl::StrAppend(&text, " (", CountText(plan.idle_accelerators()), " idle)");
  }
  absl::StrAppend(&text, ", micro-batch ", plan.micro_batch_size(), ", global batch ",
                  plan.global_batch_size(), " in ", CountText(plan.micro_batches()),
                  plan.micro_batches() == 1 ? " micro-batch" : " micro-batches", "\n  ",
                  DegreesText(plan), plan.sequence_parallel() ? ", sequence parallel" : "");
  if (plan.virtual_stages_per_rank() > 1) {
    absl::StrAppend(&text, "\n  each rank holds ", plan.virtual_stages_per_rank(),
                    " virtual stages, parted by + and | below");
  }
  if (!plan.pipeline_layout().empty()) {
    absl::StrAppend(&text, "\n  layout ", Printable(plan.pipeline_layout()));
  }
  absl::StrAppend(&text, "\n\n");

  TextTable table(
      {kRight, kLeft, kLeft, kLeft, kLeft, kRight, kLeft, kLeft, kRight, kRight, kRight, kRight});
  table.AddRow({"Stage", "Pool", "Accelerator", "Nodes", "Ranks", "Layers", "Holds", "Recompute",
                "Forward ms", "Backward ms", "Peak GiB", "Budget GiB"});
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      const v1::MemoryBreakdown& memory = stage.memory();
      table.AddRow({absl::StrCat(stage.index()), Printable(mesh.pool()),
                    Printable(mesh.accelerator()), NodeRanksText(stage.node_ranks()),
                    RangeText(stage.first_rank(), stage.ranks()), StageLayersText(stage),
                    HoldsText(stage), RecomputeText(stage.recompute()),
                    absl::StrFormat("%.2f", stage.forward_seconds() * 1e3),
                    absl::StrFormat("%.2f", stage.backward_seconds() * 1e3),
                    GibibytesText(static_cast<double>(memory.peak_bytes())),
                    GibibytesText(static_cast<double>(memory.budget_bytes()))});
    }
  }
  return text + table.Render(0);
}

std::string NodesText(const v1::ExecutionPlan& plan) {
  TextTable table({kLeft, kLeft, kRight, kLeft});
  table.AddRow({"Node rank", "Pool", "Processes", "Hosts"});
  const auto& nodes = plan.nodes();
  for (int first = 0; first < nodes.size();) {
    int end = first + 1;
    while (end < nodes.size() && nodes[end].pool() == nodes[first].pool() &&
           nodes[end].processes() == nodes[first].processes()) {
      ++end;
    }
    std::vector<std::string> hosts;
    for (int i = first; i < end; ++i) {
      // A long run shows its ends; the launcher files hold all of it.
      if (i < first + 4 || i == end - 1) hosts.push_back(Printable(nodes[i].host()));
      if (i == first + 4 && end - first > 5) hosts.push_back("...");
    }
    table.AddRow({RangeText(nodes[first].node_rank(), end - first), Printable(nodes[first].pool()),
                  absl::StrCat(nodes[first].processes()), absl::StrJoin(hosts, " ")});
    first = end;
  }
  return table.Render(2);
}

std::string MomentText(v1::PeakMoment moment) {
  switch (moment) {
    case v1::PEAK_MOMENT_LOSS:
      return "the loss";
    case v1::PEAK_MOMENT_OUTPUT:
      return "the output layer's backward pass";
    case v1::PEAK_MOMENT_EMBEDDING:
      return "the embedding's backward pass";
    case v1::PEAK_MOMENT_OPTIMIZER:
      return "the optimizer step";
    case v1::PEAK_MOMENT_BACKWARD:
      return "a layer's backward pass";
    default:
      return "";
  }
}

std::string PredictionText(const v1::ExecutionPlan& plan, const v1::Prediction& prediction) {
  const double seconds = prediction.iteration_seconds();
  std::string text = absl::StrCat(
      "Iteration: ", SecondsText(seconds), " (", SecondsText(prediction.low_iteration_seconds()),
      " to ", SecondsText(prediction.high_iteration_seconds()), " four times out of five), ",
      CountText(static_cast<int64_t>(prediction.tokens_per_second())), " tokens/s, MFU ",
      PercentText(prediction.model_flops_utilization()), "\n\nTime of stage ",
      prediction.time().stage(), ", the busiest:\n", TimeText(prediction.time(), seconds));
  if (const v1::Stage* stage = FullestStage(plan); stage != nullptr) {
    const v1::MemoryBreakdown& memory = stage->memory();
    const std::string moment = MomentText(memory.moment());
    absl::StrAppend(&text, "\nMemory of stage ", stage->index(),
                    ", the fullest: ", GibibytesText(static_cast<double>(memory.peak_bytes())),
                    " of ", GibibytesText(static_cast<double>(memory.budget_bytes())), " GiB, ",
                    absl::StrFormat("%.4g", memory.in_flight_micro_batches()),
                    memory.in_flight_micro_batches() == 1 ? " micro-batch" : " micro-batches",
                    " in flight", moment.empty() ? "" : absl::StrCat(", most at ", moment), "\n",
                    MemoryText(memory));
    if (memory.host_bytes() > 0) {
      absl::StrAppend(&text, "  and ", GibibytesText(static_cast<double>(memory.host_bytes())),
                      " GiB of host memory for each rank\n");
    }
  }
  const v1::Basis& basis = prediction.basis();
  absl::StrAppend(&text, "\nRests on: measured ", PercentText(basis.measured_ratio()),
                  ", interpolated ", PercentText(basis.interpolated_ratio()), ", analytic ",
                  PercentText(basis.analytic_ratio()), ", communication ",
                  PercentText(basis.communication_ratio()), ", host launches ",
                  PercentText(basis.launch_ratio()), "\n");
  if (!prediction.assumptions().empty()) absl::StrAppend(&text, "Assumes:\n");
  for (const std::string& assumption : prediction.assumptions()) {
    absl::StrAppend(&text, "  - ", Printable(assumption), "\n");
  }
  return text;
}

std::string MisfitText(const v1::ExecutionPlan& plan) {
  std::string text;
  for (const v1::Mesh& mesh : plan.meshes()) {
    for (const v1::Stage& stage : mesh.stages()) {
      const v1::MemoryBreakdown& memory = stage.memory();
      if (memory.host_budget_bytes() > 0 && memory.host_bytes() > memory.host_budget_bytes()) {
        absl::StrAppend(
            &text, "  stage ", stage.index(), " needs ",
            GibibytesText(static_cast<double>(memory.host_bytes() - memory.host_budget_bytes())),
            " GiB of host memory more than the ",
            GibibytesText(static_cast<double>(memory.host_budget_bytes())),
            " GiB of each rank of pool ", Printable(mesh.pool()), "\n");
      }
      const int64_t excess = stage.memory().peak_bytes() - stage.memory().budget_bytes();
      if (excess <= 0) continue;
      absl::StrAppend(&text, "  stage ", stage.index(), " needs ",
                      GibibytesText(static_cast<double>(excess)), " GiB more than its ",
                      GibibytesText(static_cast<double>(stage.memory().budget_bytes())), " GiB on ",
                      Printable(mesh.accelerator()), "\n");
    }
  }
  return text;
}

absl::string_view LimitText(v1::Termination::Limit limit) {
  switch (limit) {
    case v1::Termination::LIMIT_NONE:
      return "; all candidates are settled: the bound can tell no more, or holds for what "
             "restrictions left out";
    case v1::Termination::LIMIT_TIME:
      return "; the time ran out";
    case v1::Termination::LIMIT_CANCELLED:
      return "; the search was cancelled";
    case v1::Termination::LIMIT_FINALISTS:
      return "; the number of plans to simulate is capped";
    case v1::Termination::LIMIT_MEMORY:
      return "; the planner's memory for searches ran out";
    default:
      return "";
  }
}

}  // namespace hapmoe::client
