// Runs job.sbatch as Slurm would, on every node, with programs of the test in place of Slurm's.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/engine/schedulers/node_groups.h"
#include "core/engine/shell_quote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/schedulers/sandbox.h"
#include "tests/core/engine/schedulers/scheduler_cases.h"

namespace hapmoe::engine {
namespace {

using ::testing::HasSubstr;

constexpr char kScontrol[] = R"BASH(#!/usr/bin/env bash
[[ $1 == show && $2 == hostnames && $# == 3 ]] || exit 9
tr ',' '\n' <<<"$3"
)BASH";

// Splits its words at ":" into components, checks the options of each, and runs each on the nodes
// of its group as slurmd does. SLURM_NODEID goes on over components, as in Slurm.
constexpr char kSrun[] = R"BASH(#!/usr/bin/env bash
set -euo pipefail
printf '%s\0' "$@" >"$STUB_OUT/srun"
SLURM_NODEID=0
component() {
  local group=plain nodes= tasks= gres=
  while (($# > 0)) && [[ $1 == --* ]]; do
    case $1 in
      --het-group=*) group=${1#*=} ;;
      --nodes=*) nodes=${1#*=} ;;
      --ntasks=*) tasks=${1#*=} ;;
      --gres=*) gres=${1#*=} ;;
      --ntasks-per-node=1 | --mem=0 | --cpu-bind=none | --kill-on-bad-exit=1 | --chdir=*) ;;
      --container-*) printf '%s\n' "$1" >>"$STUB_OUT/container.$group" ;;
      *) echo "srun: unknown option $1" >&2; exit 9 ;;
    esac
    shift
  done
  local list=SLURM_JOB_NODELIST
  [[ $group == plain ]] || list=SLURM_JOB_NODELIST_HET_GROUP_$group
  mapfile -t hosts < <(tr ',' '\n' <<<"${!list}")
  [[ $nodes == "${#hosts[@]}" && $tasks == "$nodes" ]] || { echo "srun: $nodes nodes" >&2; exit 9; }
  printf '%s' "$gres" >"$STUB_OUT/gres.$group"
  for host in "${hosts[@]}"; do
    SLURMD_NODENAME=$host SLURM_NODEID=$SLURM_NODEID "$@"
    SLURM_NODEID=$((SLURM_NODEID + 1))
  done
}
words=()
for word in "$@" :; do
  if [[ $word == : ]]; then component "${words[@]}"; words=(); else words+=("$word"); fi
done
)BASH";

constexpr char kTorchrun[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/torchrun.$SLURMD_NODENAME"
printf '%s' "${GREETING-unset}" >"$STUB_OUT/greeting.$SLURMD_NODENAME"
)BASH";

// The options of each component of a batch script, without "--".
std::vector<std::map<std::string, std::string>> Directives(const std::string& script) {
  std::vector<std::map<std::string, std::string>> components(1);
  for (const absl::string_view line : absl::StrSplit(script, '\n')) {
    if (!absl::StartsWith(line, "#")) break;  // As sbatch, which reads no further.
    if (!absl::StartsWith(line, "#SBATCH ")) continue;
    if (line == "#SBATCH hetjob") {
      components.emplace_back();
      continue;
    }
    EXPECT_TRUE(absl::StartsWith(line, "#SBATCH --")) << line;
    const std::pair<std::string, std::string> option =
        absl::StrSplit(line.substr(10), absl::MaxSplits('=', 1));
    EXPECT_TRUE(components.back().insert(option).second) << line;
  }
  return components;
}

class SlurmScriptTest : public ::testing::Test {
 protected:
  SlurmScriptTest() {
    sandbox_.Write("bin/scontrol", kScontrol);
    sandbox_.Write("bin/srun", kSrun);
    sandbox_.Write("bin/torchrun", kTorchrun);
  }

  RenderedCase Write(const LauncherCase& launcher_case, const SchedulerOptions& options) {
    absl::StatusOr<RenderedCase> rendered = RenderWithScheduler(launcher_case, options);
    EXPECT_TRUE(rendered.ok()) << rendered.status();
    if (!rendered.ok()) return {};
    for (const Artifact& artifact : rendered->artifacts) {
      sandbox_.Write("plan/" + artifact.name, artifact.content);
    }
    return *std::move(rendered);
  }

  // What Slurm sets for the batch script. Without names of its own a pool's nodes are named as
  // Slurm would: here "node-POOL-INDEX". Lists are sorted.
  static std::map<std::string, std::string> Allocation(const std::vector<NodeGroup>& groups,
                                                       bool named) {
    std::map<std::string, std::string> environment;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<std::string> hosts = HostsOf(groups, i, named);
      absl::c_sort(hosts);
      const std::string list = absl::StrJoin(hosts, ",");
      if (groups.size() > 1) {
        environment[absl::StrCat("SLURM_JOB_NODELIST_HET_GROUP_", i)] = list;
      }
      if (i == 0) environment["SLURM_JOB_NODELIST"] = list;  // The first component's alone.
    }
    if (groups.size() > 1) environment["SLURM_HET_SIZE"] = absl::StrCat(groups.size());
    return environment;
  }

  // In the order in which the nodes must be ranked.
  static std::vector<std::string> HostsOf(const std::vector<NodeGroup>& groups, size_t group,
                                          bool named) {
    if (named) return groups[group].hosts;
    std::vector<std::string> hosts;
    for (int64_t i = 0; i < groups[group].nodes(); ++i) {
      hosts.push_back(absl::StrCat("node-", group, "-", i));
    }
    return hosts;
  }

  // Runs the job, and compares what every node starts with what launch.sh starts when it is given
  // the node's rank.
  void ExpectEveryNode(const LauncherCase& launcher_case, const SchedulerOptions& options) {
    const RenderedCase rendered = Write(launcher_case, options);
    const std::vector<NodeGroup> groups = NodeGroups(rendered.nodes);
    const bool named = rendered.nodes.hosts_named;
    sandbox_.Clear();
    const SandboxOutcome outcome = sandbox_.Run(
        {sandbox_.Path("plan/job.sbatch"), sandbox_.Path("plan")}, Allocation(groups, named));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_TRUE(sandbox_.WorkIsEmpty()) << "an argument was executed";
    std::map<std::string, std::vector<std::string>> started;
    int64_t rank = 0;
    const std::string master = HostsOf(groups, 0, named).front();
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(groups[i].first_node_rank, rank);
      const cluster::Pool& pool = launcher_case.cluster.pools[groups[i].pool];
      EXPECT_EQ(sandbox_.Read(groups.size() > 1 ? absl::StrCat("out/gres.", i) : "out/gres.plain"),
                absl::StrCat(options.pools[groups[i].pool].gres, ":", pool.accelerators_per_node));
      for (const std::string& host : HostsOf(groups, i, named)) {
        const std::vector<std::string> words = sandbox_.ReadWords("out/torchrun." + host);
        ASSERT_GT(words.size(), 12u) << host;
        EXPECT_EQ(words[1], absl::StrCat(rendered.nodes.nodes.size()));  // --nnodes
        EXPECT_EQ(words[3], absl::StrCat(rank));                         // --node_rank
        EXPECT_EQ(words[5], absl::StrCat(rendered.nodes.nodes[rank].processes));
        EXPECT_EQ(words[9], master);    // --master_addr
        EXPECT_EQ(words[11], "29500");  // --master_port
        EXPECT_EQ(sandbox_.Read("out/greeting." + host), options.environment.at("GREETING"));
        started[host] = words;
        ++rank;
      }
    }
    EXPECT_EQ(rank, static_cast<int64_t>(rendered.nodes.nodes.size()));
    EXPECT_EQ(started.size(), rendered.nodes.nodes.size()) << "two nodes have one name";

    rank = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const std::string& host : HostsOf(groups, i, named)) {
        const SandboxOutcome direct =
            sandbox_.Run({sandbox_.Path("plan/launch.sh"), "--node-rank", absl::StrCat(rank++),
                          "--master-addr", master},
                         {{"SLURMD_NODENAME", host}, {"HAPMOE_CONFIRM_BACKEND", "flagcx"}});
        ASSERT_EQ(direct.exit_code, 0) << direct.error;
        EXPECT_EQ(sandbox_.ReadWords("out/torchrun." + host), started[host]) << host;
      }
    }
  }

  Sandbox sandbox_;
};

TEST_F(SlurmScriptTest, StartsEveryNodeOfEveryCaseWithItsRank) {
  for (const LauncherCase& launcher_case : SchedulerCases()) {
    SCOPED_TRACE(launcher_case.name);
    ExpectEveryNode(launcher_case, OptionsFor(Scheduler::kSlurm, launcher_case.cluster));
  }
}

TEST_F(SlurmScriptTest, StartsEveryNodeOfEveryEngine) {
  for (const LauncherCase& launcher_case : EngineCases()) {
    SCOPED_TRACE(launcher_case.name);
    ExpectEveryNode(launcher_case, OptionsFor(Scheduler::kSlurm, launcher_case.cluster));
  }
}

TEST_F(SlurmScriptTest, RanksNamedHostsAsThePlanDoes) {
  // Slurm sorts its lists; the plan puts the later name first.
  LauncherCase launcher_case = LauncherCaseOf("llama8b_there_and_back_4x8");
  // The last: names that differ in their domains alone.
  for (const std::vector<std::string>& hosts : std::vector<std::vector<std::string>>{
           {"slow-9.cluster", "slow-0.cluster"}, {"slow.b", "slow.a"}}) {
    launcher_case.cluster.pools[1].hosts = hosts;
    ExpectEveryNode(launcher_case, OptionsFor(Scheduler::kSlurm, launcher_case.cluster));
  }
}

TEST_F(SlurmScriptTest, PassesHostileWordsByteForByte) {
  for (const std::string& word : HostileWords()) {
    const LauncherCase launcher_case = LauncherCaseOf("llama8b_unequal_nodes_1x8_2x4");
    SchedulerOptions options = OptionsFor(Scheduler::kSlurm, launcher_case.cluster);
    options.environment["GREETING"] = word;
    options.image = "registry/$(touch${IFS}pwned)'`touch${IFS}pwned`\"#;\\";
    options.working_directory = "/a'$(touch pwned)\" `touch pwned`";
    options.volumes = {{"data", "/data", "/a'$(touch pwned)\"`touch pwned`", "", true}};
    ExpectEveryNode(launcher_case, options);
    const std::string container = sandbox_.Read("out/container.1");
    EXPECT_THAT(container, HasSubstr("--container-image=" + options.image + "\n"));
    EXPECT_THAT(container, HasSubstr(options.volumes[0].host_path + ":/data:ro\n"));
    EXPECT_THAT(container, HasSubstr("--container-workdir=" + options.working_directory + "\n"));
  }
}

TEST_F(SlurmScriptTest, AsksForTheNodesOfThePlan) {
  for (const LauncherCase& launcher_case : LauncherCases()) {
    SCOPED_TRACE(launcher_case.name);
    const SchedulerOptions options = OptionsFor(Scheduler::kSlurm, launcher_case.cluster);
    const auto rendered = RenderWithScheduler(launcher_case, options);
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    const std::vector<NodeGroup> groups = NodeGroups(rendered->nodes);
    const auto components = Directives(rendered->artifacts.back().content);
    ASSERT_EQ(components.size(), groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      std::map<std::string, std::string> asked = components[i];
      EXPECT_EQ(asked["nodes"], absl::StrCat(groups[i].nodes()));
      EXPECT_EQ(asked["ntasks-per-node"], "1");
      EXPECT_EQ(asked["account"], "llm");
      EXPECT_EQ(asked.count("exclusive"), 1u);
      EXPECT_EQ(asked["mem"], "0");
      EXPECT_EQ(asked.count("job-name"), i == 0 ? 1u : 0u);
      const cluster::Pool& pool = launcher_case.cluster.pools[groups[i].pool];
      EXPECT_EQ(asked["gres"],
                absl::StrCat(options.pools[groups[i].pool].gres, ":", pool.accelerators_per_node));
      EXPECT_EQ(asked.count("nodelist"), pool.hosts.empty() ? 0u : 1u);
      if (!pool.hosts.empty()) {
        EXPECT_EQ(asked["nodelist"], absl::StrJoin(groups[i].hosts, ","));
      } else {
        EXPECT_EQ(asked["constraint"], options.pools[groups[i].pool].constraint);
      }
    }
  }
}

TEST_F(SlurmScriptTest, RefusesAnAllocationThatIsNotThePlans) {
  const LauncherCase launcher_case = LauncherCaseOf("mixtral_h800_a100_6x8");
  const RenderedCase rendered =
      Write(launcher_case, OptionsFor(Scheduler::kSlurm, launcher_case.cluster));
  const std::vector<NodeGroup> groups = NodeGroups(rendered.nodes);
  const auto refusal = [&](const std::string& folder, const std::string& variable,
                           const std::string& value) {
    std::map<std::string, std::string> environment = Allocation(groups, false);
    environment[variable] = value;
    sandbox_.Clear();
    const SandboxOutcome outcome =
        sandbox_.Run({sandbox_.Path("plan/job.sbatch"), folder}, environment);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(sandbox_.Read("out/srun"), "");
    return outcome.error;
  };
  const std::string plan = sandbox_.Path("plan");
  EXPECT_THAT(refusal("/nowhere", "A", ""), HasSubstr("/nowhere holds no launch.sh"));
  EXPECT_THAT(refusal(plan, "SLURM_HET_SIZE", "7"), HasSubstr("the job has 7 components"));
  EXPECT_THAT(refusal(plan, "SLURM_JOB_NODELIST_HET_GROUP_1", "node-1-0,x,y,z,a,b,c"),
              HasSubstr("component 1 has 7 nodes"));
  EXPECT_THAT(refusal(plan, "SLURM_JOB_NODELIST_HET_GROUP_0", ""), HasSubstr("is not set"));

  const LauncherCase named = LauncherCaseOf("llama8b_there_and_back_4x8");
  const RenderedCase there = Write(named, OptionsFor(Scheduler::kSlurm, named.cluster));
  std::map<std::string, std::string> environment = Allocation(NodeGroups(there.nodes), true);
  environment["SLURM_JOB_NODELIST_HET_GROUP_1"] = "slow-0.cluster,slow-7.cluster";
  const SandboxOutcome outcome =
      sandbox_.Run({sandbox_.Path("plan/job.sbatch"), plan}, environment);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.error, HasSubstr("the hosts are slow-0.cluster slow-7.cluster"));
}

TEST_F(SlurmScriptTest, IsCleanUnderShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "shellcheck is not installed";
  }
  for (const LauncherCase& launcher_case : SchedulerCases()) {
    SchedulerOptions options = OptionsFor(Scheduler::kSlurm, launcher_case.cluster);
    options.environment.erase("GREETING");  // It holds what shellcheck takes for a slip.
    options.working_directory = "/work";
    for (const char* image : {"", "registry.example/image"}) {
      options.image = image;
      Write(launcher_case, options);
      EXPECT_EQ(
          std::system(
              absl::StrCat("shellcheck ", ShellQuote(sandbox_.Path("plan/job.sbatch"))).c_str()),
          0)
          << launcher_case.name;
    }
  }
}

}  // namespace
}  // namespace hapmoe::engine
