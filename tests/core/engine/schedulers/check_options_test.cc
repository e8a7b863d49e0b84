// Every fault of what a scheduler is told, by its field.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/engine/schedulers/words.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/schedulers/scheduler_cases.h"

namespace hapmoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Change = std::function<void(SchedulerOptions& options, cluster::Cluster& cluster)>;

Violations Faults(Scheduler scheduler, const Change& change) {
  cluster::Cluster cluster = LauncherCaseOf("mixtral_h800_a100_6x8").cluster;
  SchedulerOptions options = OptionsFor(scheduler, cluster);
  change(options, cluster);
  Violations violations;
  CheckSchedulerOptions(options, cluster, violations);
  for (const Placement& placement : options.pools) {
    CheckPlacement(placement, "launch.accelerators[0]", violations);
  }
  return violations;
}

std::vector<std::string> Fields(const Violations& violations) {
  std::vector<std::string> fields;
  for (const Violation& violation : violations) fields.push_back(violation.field);
  std::sort(fields.begin(), fields.end());
  return fields;
}

TEST(CheckOptionsTest, TakesWhatSitesSay) {
  for (const Scheduler scheduler : {Scheduler::kSlurm, Scheduler::kJobSet, Scheduler::kVolcano}) {
    for (const LauncherCase& launcher_case : SchedulerCases()) {
      Violations violations;
      CheckSchedulerOptions(OptionsFor(scheduler, launcher_case.cluster), launcher_case.cluster,
                            violations);
      EXPECT_THAT(violations, IsEmpty()) << launcher_case.name;
    }
  }
}

TEST(CheckOptionsTest, NamesTheFieldOfEveryFault) {
  struct Case {
    Scheduler scheduler;
    Change change;
    std::vector<std::string> fields;
  };
  using Options = SchedulerOptions;
  using Cluster = cluster::Cluster;
  const Scheduler slurm = Scheduler::kSlurm, jobset = Scheduler::kJobSet,
                  volcano = Scheduler::kVolcano;
  const std::vector<Case> cases = {
      {slurm, [](Options& o, Cluster&) { o.name = ""; }, {"launch.name"}},
      {jobset, [](Options& o, Cluster&) { o.name = "Train"; }, {"launch.name"}},
      {jobset, [](Options& o, Cluster&) { o.name = std::string(41, 'a'); }, {"launch.name"}},
      {jobset, [](Options& o, Cluster&) { o.name = "1a"; }, {"launch.name"}},
      {jobset, [](Options& o, Cluster&) { o.kube_namespace = "a.b"; }, {"launch.namespace"}},
      {jobset, [](Options& o, Cluster&) { o.queue = "-"; }, {"launch.queue"}},
      {jobset, [](Options& o, Cluster&) { o.queue = std::string(64, 'a'); }, {"launch.queue"}},
      {volcano, [](Options& o, Cluster&) { o.queue = std::string(64, 'a'); }, {}},
      {jobset, [](Options& o, Cluster&) { o.image = "a b"; }, {"launch.image"}},
      {jobset, [](Options& o, Cluster&) { o.image = "-a"; }, {"launch.image"}},
      {jobset, [](Options& o, Cluster&) { o.image = ""; }, {"launch.image", "launch.image"}},
      {jobset,
       [](Options& o, Cluster&) { o.working_directory = "a"; },
       {"launch.working_directory"}},
      {jobset, [](Options& o, Cluster&) { o.service_name = "A"; }, {"launch.service_name"}},
      {jobset, [](Options& o, Cluster&) { o.service_name = "a"; }, {}},
      {volcano, [](Options& o, Cluster&) { o.service_name = "a"; }, {"launch.service_name"}},
      {slurm, [](Options& o, Cluster&) { o.service_name = "a"; }, {"launch.service_name"}},
      {slurm, [](Options& o, Cluster&) { o.master_port = 0; }, {"launch.master_port"}},
      {slurm, [](Options& o, Cluster&) { o.master_port = 65536; }, {"launch.master_port"}},
      {slurm, [](Options& o, Cluster&) { o.max_restarts = 1001; }, {"launch.max_restarts"}},
      {slurm, [](Options& o, Cluster&) { o.kube_namespace = "a"; }, {"launch.namespace"}},
      {slurm, [](Options& o, Cluster&) { o.queue = "a"; }, {"launch.queue"}},
      {slurm, [](Options& o, Cluster&) { o.shared_memory = "1Gi"; }, {"launch.shared_memory"}},
      {slurm, [](Options& o, Cluster&) { o.host_network = true; }, {"launch.host_network"}},
      {slurm, [](Options& o, Cluster&) { o.capabilities = {"A"}; }, {"launch.capabilities"}},
      {jobset, [](Options& o, Cluster&) { o.capabilities = {"a"}; }, {"launch.capabilities[0]"}},
      {jobset, [](Options& o, Cluster&) { o.shared_memory = "64GiB"; }, {"launch.shared_memory"}},
      {jobset,
       [](Options& o, Cluster&) {
         o.account = o.qos = "a";
         o.time_limit = "1";
         o.signal = "TERM";
       },
       {"launch.slurm.account", "launch.slurm.qos", "launch.slurm.signal",
        "launch.slurm.time_limit"}},
      {slurm,
       [](Options& o, Cluster&) {
         o.account = "a b";
         o.qos = "#a";
         o.time_limit = "tomorrow";
         o.signal = "TERM@soon";
       },
       {"launch.slurm.account", "launch.slurm.qos", "launch.slurm.signal",
        "launch.slurm.time_limit"}},
      {slurm, [](Options& o, Cluster&) { o.environment["A-B"] = ""; }, {"launch.environment"}},
      {slurm,
       [](Options& o, Cluster&) { o.environment["MASTER_ADDR"] = ""; },
       {"launch.environment"}},
      {slurm, [](Options& o, Cluster&) { o.environment["SLURM_X"] = ""; }, {"launch.environment"}},
      {slurm,
       [](Options& o, Cluster&) { o.environment["A"] = std::string("a\0b", 3); },
       {"launch.environment"}},
      {jobset,
       [](Options& o, Cluster&) {
         o.volumes[0].name = "launch";
         o.volumes[1].mount_path = "/dev/shm";
         o.volumes.push_back({"data", "/data", "", "", false});
         o.volumes.push_back({"data", "/a:b", "b", "C", false});
       },
       {"launch.volumes[0].name", "launch.volumes[1].mount_path", "launch.volumes[2]",
        "launch.volumes[2].mount_path", "launch.volumes[3]", "launch.volumes[3].claim",
        "launch.volumes[3].host_path", "launch.volumes[3].mount_path", "launch.volumes[3].name"}},
      {slurm,
       [](Options& o, Cluster&) {
         o.volumes = {{"a", "/a", "", "b", false}};
       },
       {"launch.volumes", "launch.volumes[0].claim"}},
      {slurm,
       [](Options& o, Cluster&) {
         o.image = "a";
         o.volumes = {{"a", "/a", "/b,c", "", false}};
       },
       {"launch.volumes[0].host_path"}},
      {slurm, [](Options& o, Cluster&) { o.pools[1].gres = ""; }, {"launch.accelerators"}},
      {jobset, [](Options& o, Cluster&) { o.pools[1].resource = ""; }, {"launch.accelerators"}},
      // Nodes that cannot be told apart.
      {slurm,
       [](Options& o, Cluster&) { o.pools[1].constraint = o.pools[0].constraint; },
       {"launch.accelerators"}},
      {jobset,
       [](Options& o, Cluster&) { o.pools[1].node_selector = o.pools[0].node_selector; },
       {"launch.accelerators"}},
      {jobset,
       [](Options& o, Cluster& c) {
         o.pools[1].node_selector = o.pools[0].node_selector;
         c.pools[0].hosts = {"a", "b", "c", "d"};
         c.pools[1].hosts = {"e", "f"};
       },
       {}},
      {jobset,
       [](Options&, Cluster& c) {
         c.pools[0].hosts = {"a:1", "b", "c", "d"};
       },
       {"launch.scheduler"}},
      {jobset,
       [](Options&, Cluster& c) {
         c.pools[0].hosts = {"a", "b", "c", "d"};
         c.pools[1].hosts = {"e", "c"};
       },
       {"launch.scheduler"}},
      {slurm,
       [](Options&, Cluster& c) {
         c.pools[0].hosts = {"fe80::1", "b", "c", "d"};
       },
       {"launch.scheduler"}},
      {slurm,
       [](Options& o, Cluster&) {
         o.pools[0].gres = "gpu 8";
         o.pools[0].constraint = "a'b";
         o.pools[0].partition = "$(a)";
       },
       {"launch.accelerators[0].constraint", "launch.accelerators[0].gres",
        "launch.accelerators[0].partition"}},
      {jobset,
       [](Options& o, Cluster&) {
         o.pools[0].resource = "nvidia.com/gpu\n";
         o.pools[0].node_selector = {{"a/b/c", "x"}};
         o.pools[0].pod_labels = {{"a", "b c"}};
         o.pools[0].resources = {{"memory", "much"}};
         o.pools[0].image = "a\nb";
         o.pools[0].tolerations = {{"a", "Like", "", ""}, {"", "Exists", "", ""}};
       },
       {"launch.accelerators[0].image", "launch.accelerators[0].node_selector",
        "launch.accelerators[0].pod_labels", "launch.accelerators[0].resource",
        "launch.accelerators[0].resources", "launch.accelerators[0].tolerations[0]"}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Violations faults = Faults(cases[i].scheduler, cases[i].change);
    EXPECT_THAT(Fields(faults), ElementsAreArray(cases[i].fields))
        << "case " << i << ", " << (faults.empty() ? std::string() : faults.front().message);
  }
}

TEST(CheckOptionsTest, SaysHowPoolsCanBeToldApart) {
  const Violations faults = Faults(Scheduler::kSlurm, [](SchedulerOptions& o, cluster::Cluster&) {
    o.pools[1].constraint = o.pools[0].constraint;
  });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].message, HasSubstr("pool \"a100\" (a100) from nodes of pool \"h800\""));
  EXPECT_THAT(faults[0].message, HasSubstr("constraint, a partition or a gres with its type"));
}

TEST(WordsTest, TellsWordsFromOthers) {
  struct Case {
    bool (*holds)(absl::string_view);
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const std::string long_label(63, 'a');
  for (const Case& one : std::vector<Case>{
           {IsDnsSubdomain, {"a", "1.b-c", long_label}, {"", "A", "a..b", "a.", "-a", "a_b"}},
           {IsQualifiedName,
            {"memory", "nvidia.com/gpu", "a.b/C_d.e"},
            {"", "/a", "a/", "a/b/c", "A/b", "a b", "a/" + long_label + "a"}},
           {IsLabelValue, {"", "a", "A.b_c-d", "1"}, {"-a", "a-", "a b", "a/b", long_label + "a"}},
           {IsQuantity, {"0", "8", "0.5", "64Gi", "100m"}, {"", "Gi", "-1", "1.", "1 Gi", "1KiB"}},
           {IsSlurmWord,
            {"gpu", "gpu:h800", "[a|b]&c*2", "n[01-04]", "a@b"},
            {"", "-a", "a b", "a#b", "a\"b", "a'b", "a\\b", "a$b", "a;b", "a\nb", "a`b"}},
           {IsSlurmTime,
            {"90", "1:30", "1:30:00", "2-0", "2-00:00:00"},
            {"", "-1", "1:", "1:2:3:4", "1-", "UNLIMITED", "1 2"}},
           {IsSlurmSignal,
            {"TERM", "TERM@120", "B:USR1@60", "10@5"},
            {"", "@1", "TERM@", "TERM@99999", "term", "B:", "TERM 1"}},
           {IsImage, {"a", "r.io/a:1@sha256:0", "r#a"}, {"", "-a", "a b", "a\n", "\xc3\xa9"}},
           {IsAbsolutePath, {"/", "/a b/'c'", "/\xc3\xa9"}, {"", "a", "/a\nb", "/\xff"}},
           {IsUserVariable,
            {"A", "_a1", "HAPMOE_CONFIRM_BACKEND", "TORCHRUN", "PATH"},
            {"", "1A", "A B", "A=B", "RANK", "NODE_RANK", "MASTER_PORT", "HAPMOE_X", "UID",
             "SLURM_NODEID", "JOB_COMPLETION_INDEX", "VC_TASK_INDEX", "BASH_ENV"}}}) {
    for (const std::string& word : one.yes) EXPECT_TRUE(one.holds(word)) << word;
    for (const std::string& word : one.no) EXPECT_FALSE(one.holds(word)) << word;
  }
}

TEST(NamesTest, SchedulersAreFoundByTheirNames) {
  for (const std::string& name : SchedulerNames()) {
    ASSERT_TRUE(ParseScheduler(name).has_value());
    EXPECT_EQ(std::string(SchedulerName(*ParseScheduler(name))), name);
  }
  EXPECT_FALSE(ParseScheduler("Slurm").has_value());
  EXPECT_THAT(SubmitCommand(Scheduler::kSlurm), ElementsAre("sbatch", "{}/job.sbatch", "{}"));
}

}  // namespace
}  // namespace hapmoe::engine
