// Manifests for JobSet and Volcano: against the kinds' fields and types, against what the plan
// says, and by starting every pod with a stand-in for torchrun.
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/engine/schedulers/node_groups.h"
#include "core/engine/schedulers/yaml.h"
#include "core/engine/shell_quote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/schedulers/manifest_model.h"
#include "tests/core/engine/schedulers/sandbox.h"
#include "tests/core/engine/schedulers/scheduler_cases.h"

namespace hapmoe::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTorchrun[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/torchrun"
printf '%s' "${GREETING-unset}" >"$STUB_OUT/greeting"
)BASH";

const ManifestModel& Model() {
  static const auto& model = *new ManifestModel(
      absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/core/engine/schedulers/kubernetes_models.json"));
  return model;
}

// Both manifests of one file.
struct Manifests {
  YAML::Node config_map;
  YAML::Node job;
};

Manifests Load(const std::string& text) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(text);
  EXPECT_EQ(documents.size(), 2u);
  return documents.size() == 2 ? Manifests{documents[0], documents[1]} : Manifests{};
}

std::string TypeOf(Scheduler scheduler) {
  return scheduler == Scheduler::kJobSet ? "JobSet" : "VolcanoJob";
}

// What both schedulers say of one group of pods.
struct Group {
  std::string name;
  int64_t pods = 0;
  YAML::Node pod;
};

std::vector<Group> GroupsOf(Scheduler scheduler, const YAML::Node& job) {
  std::vector<Group> groups;
  if (scheduler == Scheduler::kJobSet) {
    for (const YAML::Node& one : job["spec"]["replicatedJobs"]) {
      const YAML::Node spec = one["template"]["spec"];
      EXPECT_EQ(one["replicas"].as<int64_t>(), 1);
      EXPECT_EQ(spec["completions"].as<int64_t>(), spec["parallelism"].as<int64_t>());
      EXPECT_EQ(spec["completionMode"].Scalar(), "Indexed");
      groups.push_back(
          {one["name"].Scalar(), spec["completions"].as<int64_t>(), spec["template"]["spec"]});
    }
  } else {
    int64_t pods = 0;
    for (const YAML::Node& one : job["spec"]["tasks"]) {
      EXPECT_EQ(one["minAvailable"].as<int64_t>(), one["replicas"].as<int64_t>());
      groups.push_back(
          {one["name"].Scalar(), one["replicas"].as<int64_t>(), one["template"]["spec"]});
      pods += groups.back().pods;
    }
    EXPECT_EQ(job["spec"]["minAvailable"].as<int64_t>(), pods) << "not all nodes or none";
  }
  return groups;
}

class KubernetesManifestTest : public ::testing::TestWithParam<Scheduler> {
 protected:
  KubernetesManifestTest() { sandbox_.Write("bin/torchrun", kTorchrun); }

  Artifact FileOf(const LauncherCase& launcher_case, const SchedulerOptions& options) {
    rendered_ = RenderWithScheduler(launcher_case, options);
    EXPECT_TRUE(rendered_.ok()) << rendered_.status();
    return rendered_.ok() ? rendered_->artifacts.back() : Artifact();
  }

  // The environment of a pod's container as Kubernetes makes it, which reads $$ as $ and replaces
  // $(NAME).
  static std::map<std::string, std::string> EnvironmentOf(const YAML::Node& container) {
    std::map<std::string, std::string> environment;
    for (const YAML::Node& variable : container["env"]) {
      const std::string value = variable["value"].Scalar();
      const std::string without = absl::StrReplaceAll(value, {{"$$", ""}});
      EXPECT_THAT(without, ::testing::Not(HasSubstr("$("))) << "Kubernetes would expand it";
      environment[variable["name"].Scalar()] = absl::StrReplaceAll(value, {{"$$", "$"}});
    }
    return environment;
  }

  // Writes the files of the ConfigMap to plan/, and starts every pod.
  void ExpectEveryPod(const LauncherCase& launcher_case, const SchedulerOptions& options) {
    const Manifests manifests = Load(FileOf(launcher_case, options).content);
    EXPECT_EQ(manifests.config_map["data"]["launch.sh"].Scalar(),
              rendered_->artifacts.front().content);
    for (const auto& file : manifests.config_map["data"]) {
      sandbox_.Write("plan/" + file.first.Scalar(), file.second.Scalar());
    }
    for (const Artifact& artifact : rendered_->artifacts) {
      if (!artifact.read_at_start) continue;
      EXPECT_EQ(manifests.config_map["data"][artifact.name].Scalar(), artifact.content);
    }
    const std::string name = manifests.job["metadata"]["name"].Scalar();
    const bool job_set = GetParam() == Scheduler::kJobSet;
    const std::string master =
        job_set
            ? absl::StrCat(name, "-g0-0-0.", manifests.job["spec"]["network"]["subdomain"].Scalar())
            : absl::StrCat(name, "-g0-0.", name);
    int64_t rank = 0;
    for (const Group& group : GroupsOf(GetParam(), manifests.job)) {
      const YAML::Node container = group.pod["containers"][0];
      ASSERT_EQ(container["command"].as<std::vector<std::string>>(),
                (std::vector<std::string>{"bash", "/hapmoe/start.sh"}));
      for (int64_t index = 0; index < group.pods; ++index, ++rank) {
        std::map<std::string, std::string> environment = EnvironmentOf(container);
        environment[job_set ? "JOB_COMPLETION_INDEX" : "VC_TASK_INDEX"] = absl::StrCat(index);
        sandbox_.Clear();
        const SandboxOutcome outcome = sandbox_.Run({sandbox_.Path("plan/start.sh")}, environment);
        ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
        const std::vector<std::string> words = sandbox_.ReadWords("out/torchrun");
        ASSERT_GT(words.size(), 12u);
        EXPECT_EQ(words[1], absl::StrCat(rendered_->nodes.nodes.size()));
        EXPECT_EQ(words[3], absl::StrCat(rank));
        EXPECT_EQ(words[5], absl::StrCat(rendered_->nodes.nodes[rank].processes));
        EXPECT_EQ(words[9], master);
        EXPECT_EQ(words[11], absl::StrCat(options.master_port));
        EXPECT_EQ(sandbox_.Read("out/greeting"), options.environment.at("GREETING"));
        // The rest is what launch.sh starts when it is given the rank.
        const SandboxOutcome direct = sandbox_.Run(
            {sandbox_.Path("plan/launch.sh"), "--node-rank", absl::StrCat(rank), "--master-addr",
             master, "--master-port", absl::StrCat(options.master_port)},
            {{"HAPMOE_CONFIRM_BACKEND", "flagcx"}});
        ASSERT_EQ(direct.exit_code, 0) << direct.error;
        EXPECT_EQ(sandbox_.ReadWords("out/torchrun"), words);
      }
    }
    EXPECT_EQ(rank, static_cast<int64_t>(rendered_->nodes.nodes.size()));
    EXPECT_TRUE(sandbox_.WorkIsEmpty()) << "an argument was executed";
  }

  Sandbox sandbox_;
  absl::StatusOr<RenderedCase> rendered_ = RenderedCase();
};

TEST_P(KubernetesManifestTest, HasOnlyFieldsAndTypesOfItsKinds) {
  for (const LauncherCase& launcher_case : LauncherCases()) {
    SCOPED_TRACE(launcher_case.name);
    for (const bool host_network : {false, true}) {
      SchedulerOptions options = OptionsFor(GetParam(), launcher_case.cluster);
      options.host_network = host_network;
      options.max_restarts = host_network ? 2 : 0;
      const Manifests manifests = Load(FileOf(launcher_case, options).content);
      EXPECT_THAT(Model().Check(manifests.config_map, "ConfigMap"), IsEmpty());
      EXPECT_THAT(Model().Check(manifests.job, TypeOf(GetParam())), IsEmpty());
    }
  }
}

TEST_P(KubernetesManifestTest, StartsEveryPodWithItsRank) {
  for (const LauncherCase& launcher_case : SchedulerCases()) {
    SCOPED_TRACE(launcher_case.name);
    ExpectEveryPod(launcher_case, OptionsFor(GetParam(), launcher_case.cluster));
  }
}

TEST_P(KubernetesManifestTest, StartsPodsOfEveryEngine) {
  for (const LauncherCase& launcher_case : EngineCases()) {
    SCOPED_TRACE(launcher_case.name);
    ExpectEveryPod(launcher_case, OptionsFor(GetParam(), launcher_case.cluster));
  }
}

TEST_P(KubernetesManifestTest, AsksForTheNodesOfThePlan) {
  for (const LauncherCase& launcher_case : LauncherCases()) {
    SCOPED_TRACE(launcher_case.name);
    const SchedulerOptions options = OptionsFor(GetParam(), launcher_case.cluster);
    const Manifests manifests = Load(FileOf(launcher_case, options).content);
    const std::vector<NodeGroup> expected = NodeGroups(rendered_->nodes);
    const std::vector<Group> groups = GroupsOf(GetParam(), manifests.job);
    ASSERT_EQ(groups.size(), expected.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      const cluster::Pool& pool = launcher_case.cluster.pools[expected[i].pool];
      const Placement& placement = options.pools[expected[i].pool];
      EXPECT_EQ(groups[i].name, absl::StrCat("g", i));
      EXPECT_EQ(groups[i].pods, expected[i].nodes());
      const YAML::Node pod = groups[i].pod;
      const YAML::Node container = pod["containers"][0];
      EXPECT_EQ(container["image"].Scalar(), ImageOf(options, expected[i].pool));
      for (const char* part : {"limits", "requests"}) {
        EXPECT_EQ(container["resources"][part][placement.resource].as<int64_t>(),
                  pool.accelerators_per_node);
      }
      using Labels = std::map<std::string, std::string>;
      EXPECT_EQ(pod["nodeSelector"].as<Labels>(), placement.node_selector);
      EXPECT_EQ(pod["tolerations"].IsDefined(), !placement.tolerations.empty());
      ASSERT_EQ(pod["affinity"].IsDefined(), !pool.hosts.empty());
      if (!pool.hosts.empty()) {
        const YAML::Node expression =
            pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
               ["nodeSelectorTerms"][0]["matchExpressions"][0];
        EXPECT_EQ(expression["values"].as<std::vector<std::string>>(), expected[i].hosts);
      }
      // What is mounted is there.
      std::set<std::string> volumes;
      for (const YAML::Node& volume : pod["volumes"]) {
        EXPECT_TRUE(volumes.insert(volume["name"].Scalar()).second);
      }
      for (const YAML::Node& mount : container["volumeMounts"]) {
        EXPECT_EQ(volumes.count(mount["name"].Scalar()), 1u) << mount["name"].Scalar();
      }
      EXPECT_EQ(pod["volumes"][0]["configMap"]["name"].Scalar(),
                manifests.config_map["metadata"]["name"].Scalar());
    }
    EXPECT_EQ(manifests.job["metadata"]["namespace"].Scalar(), "ml");
    EXPECT_EQ(manifests.config_map["metadata"]["namespace"].Scalar(), "ml");
  }
}

TEST_P(KubernetesManifestTest, PassesHostileWordsByteForByte) {
  std::vector<std::string> words = HostileWords();
  for (const char* yaml : {"a: b",
                           "- a",
                           "yes",
                           "null",
                           "1e3",
                           "0x10",
                           "$(HOME)",
                           "$$(HOME)",
                           "a # b",
                           "a\nkind: Pod",
                           "\"\n---\nkind: Pod",
                           "{}",
                           "[a]",
                           "&a",
                           "*a",
                           "!tag",
                           "%d",
                           "@",
                           "`",
                           "|",
                           ">",
                           "? a",
                           " a ",
                           "2026-01-01",
                           "\t",
                           "\\",
                           "\\\\n",
                           "a\r\nb",
                           "\xc2\x85",
                           "\xe2\x80\xa8",
                           "\xf0\x9f\x98\x80"}) {
    words.push_back(yaml);
  }
  int executed = 0;
  for (const std::string& word : words) {
    if (!IsUtf8(word)) continue;  // No text of a manifest; see below.
    LauncherCase launcher_case = LauncherCaseOf("gpt2_learned_tied_fp16_1x1");
    launcher_case.argv.push_back(absl::StrCat("--wandb-exp-name=", word));
    launcher_case.entry = "dir/'$(touch pwned)' \"\n`touch pwned`*.py";
    SchedulerOptions options = OptionsFor(GetParam(), launcher_case.cluster);
    options.environment["GREETING"] = word;
    options.image = "a\"'$(b)`#{}";
    options.working_directory = "/a\": $(b) '#{}";
    options.volumes = {{"data", "/d'\"# $(x)", "/h'\"{}", "", false}};
    const Manifests manifests = Load(FileOf(launcher_case, options).content);
    EXPECT_THAT(Model().Check(manifests.job, TypeOf(GetParam())), IsEmpty());
    const YAML::Node pod = GroupsOf(GetParam(), manifests.job)[0].pod;
    EXPECT_EQ(pod["containers"][0]["image"].Scalar(), options.image);
    EXPECT_EQ(pod["containers"][0]["workingDir"].Scalar(), options.working_directory);
    EXPECT_EQ(pod["containers"][0]["volumeMounts"][2]["mountPath"].Scalar(), "/d'\"# $(x)");
    EXPECT_EQ(pod["volumes"][2]["hostPath"]["path"].Scalar(), "/h'\"{}");
    ExpectEveryPod(launcher_case, options);
    ++executed;
  }
  EXPECT_GT(executed, 30);
}

TEST_P(KubernetesManifestTest, KeepsALauncherThatIsNoTextAsBytes) {
  LauncherCase launcher_case = LauncherCaseOf("gpt2_learned_tied_fp16_1x1");
  launcher_case.argv.push_back("--wandb-exp-name=\xff\xfe");
  const Manifests manifests =
      Load(FileOf(launcher_case, OptionsFor(GetParam(), launcher_case.cluster)).content);
  EXPECT_THAT(Model().Check(manifests.config_map, "ConfigMap"), IsEmpty());
  const std::vector<unsigned char> bytes =
      YAML::DecodeBase64(manifests.config_map["binaryData"]["launch.sh"].Scalar());
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), rendered_->artifacts.front().content);
}

// An independent reader of YAML finds the same values of the same types.
TEST_P(KubernetesManifestTest, ReadsAlikeInPython) {
  if (std::system("/usr/bin/python3 -c 'import yaml' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3-yaml is not installed";
  }
  for (const LauncherCase& launcher_case : SchedulerCases()) {
    SchedulerOptions options = OptionsFor(GetParam(), launcher_case.cluster);
    options.environment["GREETING"] = "yes\t\xc2\x85 \xf0\x9f\x98\x80 \x7f: #";
    options.environment["TRUTH"] = "on";
    const std::string text = FileOf(launcher_case, options).content;
    std::ofstream(sandbox_.Path("plan/file.yaml"), std::ios::binary) << text;
    const std::string program = absl::StrCat(
        "/usr/bin/python3 -c 'import json,sys,yaml; json.dump(list(yaml.safe_load_all(open(sys.argv"
        "[1]))), open(sys.argv[2], \"w\", encoding=\"utf-8\"), ensure_ascii=False)' ",
        ShellQuote(sandbox_.Path("plan/file.yaml")), " ", ShellQuote(sandbox_.Path("out/json")));
    ASSERT_EQ(std::system(program.c_str()), 0);
    const YAML::Node python = YAML::Load(sandbox_.Read("out/json"));
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    ASSERT_EQ(python.size(), documents.size());
    const auto same = [](const auto& self, const YAML::Node& a, const YAML::Node& b,
                         const std::string& path) -> void {
      ASSERT_EQ(a.Type(), b.Type()) << path;
      ASSERT_EQ(a.size(), b.size()) << path;
      if (a.IsScalar()) {
        EXPECT_EQ(a.Scalar(), b.Scalar()) << path;
        // JSON quotes every string and nothing else.
        double number = 0;
        const bool text_here = b.Tag() == "!" || !(b.Scalar() == "true" || b.Scalar() == "false" ||
                                                   absl::SimpleAtod(b.Scalar(), &number));
        EXPECT_EQ(a.Tag() == "!", text_here) << path << " " << b.Scalar();
      } else if (a.IsSequence()) {
        for (size_t i = 0; i < a.size(); ++i) self(self, a[i], b[i], absl::StrCat(path, "/", i));
      } else {
        for (const auto& entry : a) {
          const std::string key = entry.first.Scalar();
          self(self, entry.second, b[key], path + "/" + key);
        }
      }
    };
    for (size_t i = 0; i < documents.size(); ++i) same(same, python[i], documents[i], "");
  }
}

TEST_P(KubernetesManifestTest, PodsWithoutAnIndexAreRefused) {
  const LauncherCase launcher_case = LauncherCaseOf("llama8b_interleaved_4x8");
  const Manifests manifests =
      Load(FileOf(launcher_case, OptionsFor(GetParam(), launcher_case.cluster)).content);
  sandbox_.Write("plan/start.sh", manifests.config_map["data"]["start.sh"].Scalar());
  const YAML::Node container = GroupsOf(GetParam(), manifests.job)[0].pod["containers"][0];
  for (const char* index : {"", "a[$(touch pwned)]", "-1"}) {
    std::map<std::string, std::string> environment = EnvironmentOf(container);
    environment[environment.at("HAPMOE_INDEX_VARIABLE")] = index;
    const SandboxOutcome outcome = sandbox_.Run({sandbox_.Path("plan/start.sh")}, environment);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.error, HasSubstr("which is no index of a pod"));
  }
  EXPECT_TRUE(sandbox_.WorkIsEmpty());
  if (std::system("command -v shellcheck >/dev/null 2>&1") == 0) {
    EXPECT_EQ(std::system(
                  absl::StrCat("shellcheck ", ShellQuote(sandbox_.Path("plan/start.sh"))).c_str()),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedulers, KubernetesManifestTest,
                         ::testing::Values(Scheduler::kJobSet, Scheduler::kVolcano),
                         [](const auto& one) { return std::string(SchedulerName(one.param)); });

// The checker finds what it is there for.
TEST(ManifestModelTest, RefusesWhatIsNotOfTheKind) {
  const LauncherCase launcher_case = LauncherCaseOf("mixtral_h800_ascend_4x8");
  const auto rendered =
      RenderWithScheduler(launcher_case, OptionsFor(Scheduler::kJobSet, launcher_case.cluster));
  ASSERT_TRUE(rendered.ok());
  const std::string text = rendered->artifacts.back().content;
  struct Mutation {
    const char* from;
    const char* to;
    const char* fault;
  };
  for (const Mutation& mutation : std::vector<Mutation>{
           {"replicatedJobs:", "replicatedJob:", "JobSet.spec.replicatedJob: unknown"},
           {"completionMode: Indexed", "completionMode: indexed", "indexed is none of"},
           {"replicas: 1", "replicas: one", "one is no int:0"},
           {"replicas: 1", "replicas: \"1\"", "1 is no int:0"},
           {"completions: 2", "completions: 0", "0 is no int:1"},
           {"enableDNSHostnames: true", "enableDNSHostnames: \"true\"", "true is no bool"},
           {"value: \"29500\"", "value: 29500", "29500 is no string"},
           {"subdomain: train", "subdomain: [train]", "subdomain: no string"},
           {"kind: JobSet", "kind: Jobset", "Jobset is none of"},
           {"v1alpha2", "v1alpha1", "is none of jobset.x-k8s.io/v1alpha2"},
           {"      template:", "      templates:", "template: missing"},
           {"- name: trainer", "- nam: trainer", "containers[0].name: missing"},
           {"sizeLimit: \"64Gi\"", "sizeLimit: 64GiB", "64GiB is no quantity"},
           {"restartPolicy: Never", "restartPolicy: Always", "Always is none of"},
           {"operator: Equal", "operator: Equals", "Equals is none of"},
           {"mountPath: /data", "mountpath: /data", "mountpath: unknown"}}) {
    SCOPED_TRACE(mutation.to);
    std::string changed = text;
    const size_t at = changed.rfind(mutation.from);
    ASSERT_NE(at, std::string::npos) << mutation.from;
    changed.replace(at, std::string(mutation.from).size(), mutation.to);
    EXPECT_THAT(Model().Check(Load(changed).job, "JobSet"), Contains(HasSubstr(mutation.fault)));
  }
}

}  // namespace
}  // namespace hapmoe::engine
