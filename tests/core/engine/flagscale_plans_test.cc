// Plans that the search finds for FlagScale, read back from the files that are written of them:
// what FlagScale and its Megatron-LM reject, and what they accept and run wrongly. Line numbers are
// those of FlagOpen/FlagScale da4935ec.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/engine/flagscale_launcher.h"
#include "core/engine/megatron_job.h"
#include "core/plan/node_assignment.h"
#include "core/search/search.h"
#include "gtest/gtest.h"
#include "tests/core/search/random_request.h"

namespace hapmoe::engine {
namespace {

constexpr int kSeeds = 120;

struct Host {
  std::string name;
  int64_t slots = 0;
  std::string type;
};

// As flagscale/runner/utils.py:77 reads it.
std::vector<Host> ReadHosts(const std::string& text) {
  static const std::regex pattern(R"(^(\S+)\s+slots=(\d+)(?:\s+type=(\S+))?)");
  std::vector<Host> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::smatch match;
    EXPECT_TRUE(std::regex_search(line, match, pattern)) << line;
    hosts.push_back({match[1], std::stoll(match[2]), match[3]});
  }
  return hosts;
}

// Leaf keys with their values as flagscale/runner/utils.py:271-290 hands them on: a nested list is
// one word.
using Leaves = std::map<std::string, std::vector<std::string>>;

std::string PythonText(const YAML::Node& node) {
  if (node.IsScalar()) return node.as<std::string>();
  std::string text = "[";
  for (const YAML::Node& item : node) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", PythonText(item));
  }
  return text + "]";
}

void AddLeaves(const YAML::Node& map, Leaves& leaves) {
  for (const auto& entry : map) {
    if (entry.second.IsMap()) {
      AddLeaves(entry.second, leaves);
      continue;
    }
    std::vector<std::string> values;
    if (entry.second.IsSequence()) {
      for (const YAML::Node& item : entry.second) values.push_back(PythonText(item));
    } else if (entry.second.Tag() == "!" || entry.second.as<std::string>() != "true") {
      values.push_back(entry.second.as<std::string>());
    }
    const std::string key = entry.first.as<std::string>();
    EXPECT_TRUE(leaves.emplace(key, std::move(values)).second) << key << " stands twice";
  }
}

std::vector<int64_t> Numbers(const Leaves& leaves, const std::string& key) {
  std::vector<int64_t> numbers;
  const auto found = leaves.find(key);
  if (found == leaves.end()) return numbers;
  for (const std::string& value : found->second) numbers.push_back(std::stoll(value));
  return numbers;
}

int64_t Number(const Leaves& leaves, const std::string& key, int64_t otherwise = 0) {
  const std::vector<int64_t> numbers = Numbers(leaves, key);
  return numbers.empty() ? otherwise : numbers.front();
}

// Values by stage of a list of rows [stages, micro-batches, value].
std::vector<int64_t> ByStage(const Leaves& leaves, const std::string& key, int64_t micro_batches) {
  std::vector<int64_t> values;
  for (const std::string& row : leaves.at(key)) {
    const YAML::Node list = YAML::Load(row);
    EXPECT_EQ(list.size(), 3u) << row;
    EXPECT_EQ(list[1].as<int64_t>(), micro_batches) << row;
    values.insert(values.end(), list[0].as<size_t>(), list[2].as<int64_t>());
  }
  return values;
}

struct Mesh {
  int64_t tp, cp, ep, dp, pp;
  int64_t ranks() const { return tp * cp * dp * pp; }
};

// Everything written about one plan.
struct Written {
  Leaves job;
  YAML::Node experiment;
  std::vector<Host> hosts;
};

std::vector<Mesh> MeshesOf(const Leaves& job) {
  const std::vector<int64_t> numbers = Numbers(job, "hetero_process_meshes");
  EXPECT_EQ(numbers.size() % 5, 0u);  // flagscale/train/arguments.py:88.
  std::vector<Mesh> meshes;
  for (size_t i = 0; i + 4 < numbers.size(); i += 5) {
    meshes.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]});
  }
  return meshes;
}

// What is rejected.
void CheckAccepted(const Written& written) {
  const Leaves& job = written.job;
  const std::vector<Mesh> meshes = MeshesOf(job);
  ASSERT_FALSE(meshes.empty());
  EXPECT_TRUE(job.at("enable_hetero").empty());
  const int64_t micro_batch = Number(job, "micro_batch_size");
  const int64_t global_batch = Number(job, "global_batch_size");
  const int64_t heads = Number(job, "num_attention_heads");
  const int64_t experts = Number(job, "num_experts");
  const std::vector<int64_t> expert_tensors =
      Numbers(job, "expert_tensor_parallel_size_per_process_mesh");
  EXPECT_EQ(expert_tensors.size(), experts > 0 ? meshes.size() : 0u);  // :99.
  int64_t stages = 0;
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Mesh& mesh = meshes[i];
    EXPECT_EQ(meshes[0].dp * micro_batch % mesh.dp, 0);  // :105.
    EXPECT_EQ(mesh.cp, 1);                               // parallel_context.py:550.
    EXPECT_EQ(heads % mesh.tp, 0);
    EXPECT_EQ(Number(job, "num_query_groups", heads) % mesh.tp, 0);
    if (experts > 0) {
      EXPECT_EQ(mesh.ranks() % (expert_tensors[i] * mesh.ep * mesh.pp), 0);  // :268.
      EXPECT_EQ(experts % mesh.ep, 0);
    } else {
      EXPECT_EQ(mesh.ep, 1);
    }
    stages += mesh.pp;
  }
  EXPECT_EQ(global_batch % (meshes[0].dp * micro_batch), 0);
  EXPECT_EQ(Number(job, "pipeline_model_parallel_size"), stages);  // arguments.py:121.
  EXPECT_EQ(Number(job, "tensor_model_parallel_size"), meshes[0].tp);
  EXPECT_EQ(Number(job, "expert_model_parallel_size", 1), meshes[0].ep);
  const std::vector<int64_t> split = Numbers(job, "hetero_pipeline_layer_split");
  EXPECT_EQ(static_cast<int64_t>(split.size()), stages);  // :169.
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), int64_t{0}),
            Number(job, "num_layers"));                         // :166.
  if (job.count("untie_embeddings_and_output_weights") == 0) {  // :131-149.
    EXPECT_EQ(meshes.front().tp, meshes.back().tp);
    EXPECT_EQ(meshes.front().dp, meshes.back().dp);
  }
  const std::vector<std::string>& types = job.at("hetero_device_types");
  EXPECT_EQ(types.size(), meshes.size());  // :182.
  EXPECT_NE(std::find(types.begin(), types.end(), job.at("hetero_current_device_type").front()),
            types.end());  // :185.
  std::vector<std::string> names;
  for (const Host& host : written.hosts) {
    EXPECT_FALSE(host.type.empty());
    EXPECT_EQ(std::count(names.begin(), names.end(), host.name), 0) << host.name;
    names.push_back(host.name);
  }
}

// What is accepted and goes wrong.
void CheckSafe(const Written& written) {
  const Leaves& job = written.job;
  const std::vector<Mesh> meshes = MeshesOf(job);
  const std::vector<std::string>& types = job.at("hetero_device_types");
  const std::vector<int64_t> expert_tensors =
      Numbers(job, "expert_tensor_parallel_size_per_process_mesh");
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Mesh& mesh = meshes[i];
    EXPECT_EQ(mesh.pp, 1);
    EXPECT_EQ(mesh.ep > 1, meshes[0].ep > 1);
    if (!expert_tensors.empty()) {
      const int64_t grid = expert_tensors[i] * mesh.ep;
      EXPECT_GE(grid * (i == 0 ? 2 : 1), mesh.tp * mesh.dp);
    }
    if (mesh.tp != meshes[0].tp) {
      EXPECT_EQ(job.count("sequence_parallel"), 1u);
    }
  }
  // Ranks are sorted by the place of their type; that must not move any, and every mesh must have
  // devices of its type only (parallel_context.py:143-163).
  std::vector<std::pair<int64_t, int64_t>> ranks;  // Place of the type, physical rank.
  std::vector<std::string> type_of;
  for (const Host& host : written.hosts) {
    const auto place = std::find(types.begin(), types.end(), host.type);
    ASSERT_NE(place, types.end()) << host.type;
    for (int64_t i = 0; i < host.slots; ++i) {
      ranks.push_back({place - types.begin(), static_cast<int64_t>(ranks.size())});
      type_of.push_back(host.type);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t next = 0;
  for (size_t i = 0; i < meshes.size(); ++i) {
    for (int64_t k = 0; k < meshes[i].ranks(); ++k, ++next) {
      ASSERT_LT(next, ranks.size()) << "too few devices";
      EXPECT_EQ(ranks[next].second, static_cast<int64_t>(next));
      EXPECT_EQ(type_of[static_cast<size_t>(ranks[next].second)], types[i]);
    }
  }
  EXPECT_EQ(next, ranks.size()) << "too many devices";
  for (const char* key :
       {"log_params_norm", "calculate_per_token_loss", "use_tp_pp_dp_mapping", "no_shared_fs",
        "hetero_use_cpu_communication", "num_layers_per_virtual_pipeline_stage",
        "num_distributed_optimizer_instances", "pipeline_model_parallel_layout"}) {
    EXPECT_EQ(job.count(key), 0u) << key;
  }
  EXPECT_EQ(job.at("ckpt_format"), std::vector<std::string>{"torch"});
  // The launcher counts processes by one variable, a text.
  const YAML::Node experiment = written.experiment["experiment"];
  int visible = 0;
  for (const auto& variable : experiment["envs"]) {
    if (!absl::EndsWith(variable.first.as<std::string>(), "_VISIBLE_DEVICES")) continue;
    ++visible;
    EXPECT_EQ(variable.second.Tag(), "!");
    const std::string devices = variable.second.as<std::string>();
    for (const Host& host : written.hosts) {
      EXPECT_GE(std::count(devices.begin(), devices.end(), ',') + 1, host.slots);
    }
  }
  EXPECT_EQ(visible, 1);
  for (const char* key : {"nnodes", "nproc_per_node", "no_shared_fs"}) {
    EXPECT_FALSE(experiment["runner"][key].IsDefined()) << key;
  }
}

// What was written is the plan.
void CheckIsThePlan(const Written& written, const plan::Plan& plan) {
  const Leaves& job = written.job;
  const std::vector<Mesh> meshes = MeshesOf(job);
  const std::vector<int64_t> split = Numbers(job, "hetero_pipeline_layer_split");
  size_t at = 0;
  std::vector<int64_t> recomputed;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      ASSERT_LT(at, meshes.size());
      EXPECT_EQ(meshes[at].tp, mesh.degrees.tp);
      EXPECT_EQ(meshes[at].dp, mesh.degrees.dp);
      EXPECT_EQ(meshes[at].ep, mesh.degrees.ep);
      EXPECT_EQ(split[at], stage.layers());
      const bool full = stage.recompute.granularity == model::Recompute::Granularity::kFull;
      recomputed.push_back(full ? stage.recompute.num_layers : 0);
      ++at;
    }
  }
  EXPECT_EQ(at, meshes.size());
  std::vector<int64_t> read(at, 0);
  if (job.count("recompute_granularity") > 0) {
    EXPECT_EQ(job.at("recompute_granularity").front(), "full");
    read.assign(at, Number(job, "recompute_num_layers"));
    if (job.count("recompute_granularity_per_stage_micro_batch") > 0) {
      const auto by_stage = [&](const char* what) {
        return ByStage(job, absl::StrCat("recompute_", what, "_per_stage_micro_batch"),
                       plan.micro_batches);
      };
      read = by_stage("num_layers");
      const std::vector<int64_t> on = by_stage("granularity");
      ASSERT_EQ(on.size(), at);
      EXPECT_EQ(by_stage("method").size(), at);
      ASSERT_EQ(read.size(), at);
      for (size_t i = 0; i < at; ++i) EXPECT_EQ(on[i], read[i] > 0 ? 1 : 0);
    }
  }
  EXPECT_EQ(read, recomputed);
}

// The request's job as arguments, with options that must not come through.
std::vector<std::string> ArgumentsOf(const search::SearchRequest& request, uint32_t seed) {
  const model::TransformerSpec& model = request.problem.model;
  std::vector<std::string> argv = {"--bf16", "--swiglu", "--disable-bias-linear", "--mock-data",
                                   "--use-distributed-optimizer"};
  const auto set = [&argv](const char* flag, int64_t value) {
    argv.push_back(flag);
    argv.push_back(absl::StrCat(value));
  };
  set("--num-layers", model.layers);
  set("--hidden-size", model.hidden);
  set("--ffn-hidden-size", model.ffn_hidden);
  set("--num-attention-heads", model.heads);
  set("--seq-length", model.seq_length);
  set("--max-position-embeddings", model.seq_length);
  set("--vocab-size", model.vocab);
  set("--micro-batch-size", 1);
  set("--global-batch-size", request.problem.training.global_batch);
  set("--tensor-model-parallel-size", 7);  // The plan replaces it.
  if (model.moe.has_value()) set("--num-experts", model.moe->experts);
  if (!model.tied_embeddings) argv.push_back("--untie-embeddings-and-output-weights");
  const char* const traps[] = {"--log-params-norm", "--calculate-per-token-loss",
                               "--use-tp-pp-dp-mapping", "--ckpt-format=torch_dist",
                               "--num-distributed-optimizer-instances=2"};
  for (size_t i = 0; i < std::size(traps); ++i) {
    if ((seed >> i & 1) != 0) argv.push_back(traps[i]);
  }
  return argv;
}

// The options that the job keeps come out of the file as they went in.
void CheckKeepsTheJob(const Written& written, const Arguments& arguments) {
  for (const char* dest : {"num_layers", "hidden_size", "ffn_hidden_size", "seq_length", "bf16",
                           "swiglu", "mock_data", "vocab_size", "num_experts"}) {
    const Argument* argument = arguments.Find(dest);
    if (argument == nullptr) continue;
    const std::string key = absl::StrReplaceAll(argument->flag.substr(2), {{"-", "_"}});
    ASSERT_EQ(written.job.count(key), 1u) << key;
    EXPECT_EQ(written.job.at(key), argument->values) << key;
  }
}

TEST(FlagScalePlans, AreWrittenSoThatFlagScaleRunsThem) {
  int plans = 0, different_tensors = 0, experts = 0, returning = 0, tied = 0, recomputing = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    search::SearchRequest request = search::RandomRequest(seed, 1 + seed % 3);
    request.constraints.engine = plan::kFlagScale;
    request.constraints.allow_idle_accelerators = true;
    model::TransformerSpec& model = request.problem.model;
    model.tied_embeddings = seed % 4 == 0;
    std::fill(model.layer_kinds.begin(), model.layer_kinds.end(), model.layer_kinds.back());
    InlineExecutor executor;
    const Interrupter interrupter;
    const auto outcome =
        search::Search(request, executor, interrupter, [](const search::Progress&) {});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    std::vector<plan::Plan> found;
    if (outcome->best.has_value()) found.push_back(outcome->best->plan);
    for (const search::Costed& other : outcome->alternatives) found.push_back(other.plan);
    Violations violations;
    const Arguments arguments = Arguments::Parse(ArgumentsOf(request, seed), violations);
    ASSERT_TRUE(violations.empty()) << violations.front().message;
    for (const plan::Plan& plan : found) {
      const auto nodes = plan::AssignNodes(plan, request.problem.cluster);
      ASSERT_TRUE(nodes.ok()) << nodes.status();
      const LauncherInput input{arguments, plan, request.problem.cluster, *nodes, "", {}, {}};
      const auto artifacts = RenderFlagScaleLauncher(input);
      ASSERT_TRUE(artifacts.ok()) << artifacts.status();
      Written written;
      for (const Artifact& artifact : *artifacts) {
        if (artifact.name == "hostfile") written.hosts = ReadHosts(artifact.content);
        if (artifact.name == "experiment.yaml") written.experiment = YAML::Load(artifact.content);
        if (artifact.name != "train/job.yaml") continue;
        const YAML::Node train = YAML::Load(artifact.content);
        for (const char* section : {"system", "model", "data"}) {
          AddLeaves(train[section], written.job);
        }
      }
      CheckAccepted(written);
      CheckSafe(written);
      CheckIsThePlan(written, plan);
      CheckKeepsTheJob(written, arguments);
      if (::testing::Test::HasFailure()) return;
      ++plans;
      std::vector<int64_t> pools;
      bool differ = false, returns = false;
      for (const plan::Mesh& mesh : plan.meshes) {
        differ = differ || mesh.degrees.tp != plan.meshes.front().degrees.tp;
        if (!pools.empty() && pools.back() == mesh.pool) continue;
        returns = returns || std::count(pools.begin(), pools.end(), mesh.pool) > 0;
        pools.push_back(mesh.pool);
      }
      different_tensors += differ ? 1 : 0;
      returning += returns ? 1 : 0;
      experts += model.moe.has_value() ? 1 : 0;
      tied += model.tied_embeddings ? 1 : 0;
      recomputing += written.job.count("recompute_granularity") > 0 ? 1 : 0;
    }
  }
  std::cout << plans << " plans: " << different_tensors << " with different tp, " << returning
            << " that come back to a pool, " << experts << " with experts, " << tied << " tied, "
            << recomputing << " that recompute\n";
  EXPECT_GT(plans, kSeeds / 2);
  EXPECT_GT(different_tensors, 0);
  EXPECT_GT(experts, 0);
  EXPECT_GT(tied, 0);
}

}  // namespace
}  // namespace hapmoe::engine
