// hapmoe from its words to its exit code, against a planner in this process.
#include "client/commands.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/support/error_details.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/client/fake_planner.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    std::string pattern = fs::temp_directory_path() / "commands_test.XXXXXX";
    root_ = mkdtemp(pattern.data());
    cluster_ = Write("cluster.yaml", "pools: [{name: a, accelerator: H800, nodes: 4}]\n");
    fake_.plan = [this](const v1::PlanRequest& request, v1::PlanResponse& response) {
      plan_request_ = request;
      *response.mutable_answer() = answer_;
      return grpc::Status::OK;
    };
    v1::ExecutionPlan& plan = *answer_.mutable_plan();
    plan.set_plan_id("abc");
    plan.set_engine("megatron-lm");
    plan.set_world_size(32);
    v1::Artifact& artifact = *answer_.add_artifacts();
    artifact.set_name("launch.sh");
    artifact.set_content("#!/bin/bash\n");
    artifact.set_executable(true);
  }
  ~CommandsTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }

  static std::string Read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  RunOutcome Run(std::vector<std::string> words, const std::string& input = "") {
    return RunWords(words, input, fake_.address());
  }

  FakePlanner fake_;
  fs::path root_;
  std::string cluster_;
  v1::PlanAnswer answer_;
  v1::PlanRequest plan_request_;
};

TEST_F(CommandsTest, HelpAndVersionNeedNoServer) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"help"}, {"--help"}, {"help", "plan"}, {"plan", "--help"}, {"evaluate", "-h"}}) {
    const RunOutcome run = RunWords(words, "", "127.0.0.1:1");
    EXPECT_EQ(run.code, kDone);
    EXPECT_THAT(run.out, HasSubstr("Usage: hapmoe"));
    EXPECT_THAT(run.err, IsEmpty());
  }
  EXPECT_THAT(RunWords({"version"}).out, StartsWith("hapmoe "));
  EXPECT_EQ(RunWords({"help", "plam"}).code, kUsage);
}

TEST_F(CommandsTest, ArgsPrintsEveryLaunchAndCallsNoServer) {
  const std::string script =
      Write("job.sh",
            "export NCCL_X=1 HF_TOKEN=secret\n"
            "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers $1\n"
            "python run_recipe.py --recipe r\n");
  const RunOutcome run = RunWords(
      {"args", "--script", script, "--script-reading", "static", "--", "4"}, "", "127.0.0.1:1");
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(
      run.out,
      StartsWith("[\n{\"program\": \"torchrun\", \"launcher_args\": [\"--nnodes\", \"2\", "
                 "\"--nproc_per_node\", \"8\"], \"entry\": \"pretrain_gpt.py\", \"args\": "
                 "[\"--num-layers\", \"4\"], \"env\": {\"NCCL_X\": \"1\"}, \"world_size\": 16, "
                 "\"refusal\": null},\n{\"program\": \"python\", "));
  EXPECT_THAT(run.out,
              HasSubstr("\"world_size\": null, \"refusal\": \"it is a launch of Megatron-Bridge"));
  EXPECT_EQ(RunWords({"args"}).code, kUsage);
  const RunOutcome none =
      RunWords({"args", "--script", Write("none.sh", "echo\n"), "--script-reading", "static"});
  EXPECT_EQ(none.code, kRefused);
  EXPECT_EQ(none.out, "[]\n");
}

// The launch of a script that is planned.
TEST_F(CommandsTest, ScriptsOfSeveralLaunches) {
  const auto plan = [this](const std::string& text, std::vector<std::string> more = {}) {
    plan_request_.Clear();
    std::vector<std::string> words = {"plan",     "--cluster",           cluster_,
                                      "--script", Write("job.sh", text), "--script-reading",
                                      "static"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  };
  const std::string prepare = "python tools/preprocess_data.py --input x\n";
  const std::string train = "torchrun pretrain_gpt.py --num-layers 2\n";
  const auto layers = [this] {
    const v1::Job& job = plan_request_.problem().job();
    return job.megatron_args_size() == 2 ? job.megatron_args(1) : "";
  };

  RunOutcome run = plan(prepare + train);
  EXPECT_EQ(run.code, kDone);
  EXPECT_EQ(layers(), "2");
  EXPECT_THAT(run.err, HasSubstr("taken is the only launch that trains, 2: pretrain_gpt.py"));

  const std::string two = train + "torchrun pretrain_gpt.py --num-layers 4\n";
  run = plan(two);
  EXPECT_EQ(run.code, kUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("launches 2 times; pick one with --launch N"),
                             HasSubstr("2: torchrun pretrain_gpt.py, 2 arguments: ... 4")));
  EXPECT_EQ(plan(two, {"--launch", "2"}).code, kDone);
  EXPECT_EQ(layers(), "4");
  EXPECT_THAT(plan(two, {"--launch", "3"}).err, HasSubstr("--launch 3: "));

  run = plan(prepare);
  EXPECT_EQ(run.code, kUsage);
  EXPECT_THAT(run.err, HasSubstr("launches only python tools/preprocess_data.py"));
  EXPECT_EQ(plan(prepare, {"--launch", "1"}).code, kDone);

  run = plan("torchrun pretrain_gpt.py --use-checkpoint-args --bf16\n");
  EXPECT_EQ(run.code, kUsage);
  EXPECT_THAT(run.err, HasSubstr("leave it out and give --num-layers"));
}

TEST_F(CommandsTest, FlagScaleFilesAreScripts) {
  const std::string file = Write("train.yaml",
                                 "system: {no_shared_fs: true}\nmodel: {num_layers: 2}\n"
                                 "data: {split: 1}\n");
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--script", file});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(plan_request_.problem().job().megatron_args(),
              ElementsAre("--num-layers", "2", "--split", "1"));
  EXPECT_THAT(run.err,
              HasSubstr("FlagScale's own and not part of the plan; add them where it runs: "
                        "--no-shared-fs"));
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--script", file, "--", "x"}).code, kUsage);
}

TEST_F(CommandsTest, UsageFaultsExitWithTwoBeforeAnyCall) {
  fake_.plan = nullptr;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "a command is missing"},
      {{"plan", "stray", "--cluster", cluster_}, "\"stray\" belongs to no option"},
      {{"plan", "--", "--bf16"}, "the cluster is missing"},
      {{"plan", "--cluster", cluster_}, "the job is missing"},
      {{"plan", "--cluster", "/nonexistent", "--", "--bf16"}, "cannot read /nonexistent: No such"},
      {{"plan", "--cluster", root_, "--", "--bf16"}, "cannot read"},
      {{"plan", "--cluster", cluster_, "--script", "a", "--args-file", "b"}, "give the job once"},
      {{"plan", "--cluster", cluster_, "--args-file", "b", "--", "c"}, "give the job once"},
      {{"plan", "--cluster", cluster_, "--args-file", "/nonexistent"}, "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--script", "/nonexistent"}, "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--env", "A=1", "--", "c"}, "go with --script"},
      {{"plan", "--cluster", cluster_, "--router-stats", "/nonexistent", "--", "c"},
       "cannot read /nonexistent"},
      {{"evaluate", "--cluster", cluster_, "--router-stats", cluster_, "--", "c"}, "not JSON"},
      {{"plan", "--cluster", cluster_, "--imbalance-quantile", "1", "--", "c"},
       "--imbalance-quantile must be at least 0 and below 1"},
      {{"plan", "--cluster", cluster_, "--scheduler-file", "/nonexistent", "--", "c"},
       "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--scheduler-file", cluster_, "--", "c"},
       "the file has no field \"pools\""},
      {{"plan", "--cluster", cluster_, "--scheduler-file", Write("a", "image: b\n"), "--", "c"},
       "--scheduler-file goes with --scheduler, unless"},
      {{"evaluate", "--batch", "-", "--router-stats", "x"}, "--batch takes jobs and clusters"},
      {{"evaluate", "--batch", "-", "--", "x"}, "--batch takes jobs and clusters from its file"},
      {{"evaluate", "--batch", "/nonexistent"}, "cannot read /nonexistent"},
      {{"profiles"}, "profiles takes list, get, put, delete, coverage or import"},
      {{"profiles", "lst"}, "profiles has no action lst; did you mean list?"},
      {{"profiles", "get"}, "profiles get takes one name"},
      {{"profiles", "put", "/nonexistent"}, "cannot read /nonexistent"},
      {{"profiles", "coverage"}, "takes names of accelerators, or --cluster FILE and a job"},
      {{"profiles", "coverage", "--", "--bf16"}, "the cluster is missing"},
      {{"profiles", "coverage", "--cluster", cluster_}, "the job is missing"},
      {{"profiles", "list", "--cluster", cluster_}, "profiles list takes no job or cluster"},
      {{"profiles", "get", "X", "--", "--bf16"}, "profiles get takes no job or cluster"},
  };
  for (const auto& [words, what] : cases) {
    SCOPED_TRACE(what);
    const RunOutcome run = Run(words);
    EXPECT_EQ(run.code, kUsage);
    EXPECT_THAT(run.err, AllOf(StartsWith("hapmoe: "), HasSubstr(what)));
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST_F(CommandsTest, FaultsOfTheClusterFileNameFileAndLine) {
  const std::string file = Write("bad.yaml", "pools:\n- {name: a, accelerator: b, nods: 4}\n");
  const RunOutcome run = Run({"plan", "--cluster", file, "--", "--bf16"});
  EXPECT_EQ(run.code, kUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr(file + ":2: a pool has no field \"nods\""),
                             HasSubstr(file + ":2: a pool lacks its nodes")));
}

TEST_F(CommandsTest, PlanSendsTheWholeProblem) {
  const RunOutcome run =
      Run({"plan", "--cluster", cluster_, "--tp", "1,2", "--allow-idle", "--entry", "train.py",
           "--request-id", "r1", "--", "--num-layers", "32", "--save", "a b"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Plan abc for megatron-lm: 32 accelerators"));
  EXPECT_EQ(plan_request_.request_id(), "r1");
  const v1::Problem& problem = plan_request_.problem();
  EXPECT_THAT(problem.job().megatron_args(), ElementsAre("--num-layers", "32", "--save", "a b"));
  EXPECT_EQ(problem.job().entry(), "train.py");
  EXPECT_EQ(problem.cluster().pools(0).accelerator(), "H800");
  EXPECT_THAT(problem.constraints().tp(), ElementsAre(1, 2));
  EXPECT_TRUE(problem.constraints().allow_idle_accelerators());
}

TEST_F(CommandsTest, PlanReadsAnArgumentsFile) {
  const std::string file = Write("args", "# job\n--num-layers 32 --save 'a b'\n");
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--args-file", file}).code, kDone);
  EXPECT_THAT(plan_request_.problem().job().megatron_args(),
              ElementsAre("--num-layers", "32", "--save", "a b"));
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--args-file", "-"}, "[\"--bf16\"]").code, kDone);
  EXPECT_THAT(plan_request_.problem().job().megatron_args(), ElementsAre("--bf16"));
}

TEST_F(CommandsTest, PlanSendsWhatTheRouterWasSeenToDo) {
  const std::string file = Write("stats.json", "[[3, 1], [2, 2]]");
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--router-stats", file,
                              "--imbalance-quantile", "0.5", "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  const v1::Job& job = plan_request_.problem().job();
  ASSERT_EQ(job.router_statistics().layers_size(), 2);
  EXPECT_THAT(job.router_statistics().layers(0).expert_tokens(), ElementsAre(3, 1));
  EXPECT_EQ(job.imbalance_quantile(), 0.5);
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--", "--bf16"}).code, kDone);
  EXPECT_FALSE(plan_request_.problem().job().has_router_statistics());
  EXPECT_FALSE(plan_request_.problem().job().has_imbalance_quantile());
}

TEST_F(CommandsTest, PlanSendsWhatTheSchedulerIsToldAndSaysWhatToType) {
  const std::string file = Write("site.yaml", "scheduler: volcano\nqueue: a\n");
  for (const char* word : {"sbatch", "{}/job.sbatch", "{}"}) answer_.add_submit_command(word);
  const fs::path out = root_ / "it's";
  RunOutcome run = Run({"plan", "--cluster", cluster_, "--scheduler", "slurm", "--scheduler-file",
                        file, "--out", out, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(plan_request_.launch().scheduler(), "slurm");
  EXPECT_EQ(plan_request_.launch().queue(), "a");
  const std::string quoted = "'" + root_.string() + "/it'\\''s";
  EXPECT_THAT(run.out, HasSubstr("Submit:\n  sbatch " + quoted + "/job.sbatch' " + quoted + "'\n"));

  run = Run({"plan", "--cluster", cluster_, "--scheduler-file", file, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(plan_request_.launch().scheduler(), "volcano");
  EXPECT_THAT(run.out, HasSubstr("Submit:\n  sbatch DIR/job.sbatch DIR\n"));

  fake_.stream_plan = [this](const v1::StreamPlanRequest& request, const auto& write) {
    EXPECT_EQ(request.launch().scheduler(), "jobset");
    v1::StreamPlanResponse event;
    *event.mutable_answer() = answer_;
    write(event);
    return grpc::Status::OK;
  };
  run = Run({"plan", "--progress", "--cluster", cluster_, "--scheduler", "jobset", "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;

  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--", "--bf16"}).code, kDone);
  EXPECT_FALSE(plan_request_.has_launch());
}

TEST_F(CommandsTest, PlanPrintsJsonWithTheNamesOfTheProto) {
  const RunOutcome run = Run({"plan", "-o", "json", "--cluster", cluster_, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(run.out, HasSubstr("\"world_size\": 32"));
  v1::PlanResponse response;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(run.out, &response).ok());
  EXPECT_EQ(response.answer().plan().plan_id(), "abc");
}

TEST_F(CommandsTest, PlanWritesItsFiles) {
  const fs::path out = root_ / "new" / "dir";
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--out", out, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(Read(out / "launch.sh"), "#!/bin/bash\n");
  EXPECT_EQ(access((out / "launch.sh").c_str(), X_OK), 0);
  EXPECT_THAT(run.out, HasSubstr(out / "launch.sh"));
}

TEST_F(CommandsTest, FilesThatWouldEscapeAreRefusedAndThePlanIsStillPrinted) {
  answer_.mutable_artifacts(0)->set_name("../launch.sh");
  const fs::path out = root_ / "dir";
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--out", out, "--", "--bf16"});
  EXPECT_EQ(run.code, kRefused);
  EXPECT_THAT(run.err, HasSubstr("could leave the directory"));
  EXPECT_THAT(run.out, HasSubstr("Plan abc"));
  EXPECT_FALSE(fs::exists(root_ / "launch.sh"));
}

TEST_F(CommandsTest, ProgressIsShownOnStandardError) {
  fake_.stream_plan = [this](const v1::StreamPlanRequest& request, const auto& write) {
    EXPECT_EQ(request.problem().cluster().pools_size(), 1);
    v1::StreamPlanResponse event;
    event.mutable_progress()->set_candidates(480);
    event.mutable_progress()->set_candidates_done(120);
    event.mutable_progress()->set_best_iteration_seconds(5.5);
    event.mutable_progress()->set_lower_bound_seconds(5.25);
    write(event);
    event.mutable_incumbent()->mutable_plan()->set_plan_id("older");
    write(event);
    *event.mutable_answer() = answer_;
    write(event);
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"plan", "--progress", "--cluster", cluster_, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(run.err, "searching: 120 of 480 candidates, best 5.500 s, none below 5.250 s\n");
  EXPECT_THAT(run.out, AllOf(HasSubstr("Plan abc"), Not(HasSubstr("older"))));
}

TEST_F(CommandsTest, AStreamWithoutAnAnswerIsAFailure) {
  fake_.stream_plan = [](const v1::StreamPlanRequest&, const auto&) { return grpc::Status::OK; };
  const RunOutcome run = Run({"plan", "--progress", "--cluster", cluster_, "--", "--bf16"});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, HasSubstr("ended without an answer"));
}

TEST_F(CommandsTest, RefusalsExitWithOneAndSayWhy) {
  fake_.plan = [](const v1::PlanRequest&, v1::PlanResponse&) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field("--num-experts");
    violation->set_description("7 is not divisible by ep 2");
    violation->set_reason("experts_divide");
    google::rpc::Status rich;
    rich.set_code(grpc::StatusCode::INVALID_ARGUMENT);
    rich.set_message("the job is not valid");
    rich.add_details()->PackFrom(bad);
    grpc::Status status;
    grpc::SetErrorDetails(rich, &status);
    return status;
  };
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--", "--bf16"});
  EXPECT_EQ(run.code, kRefused);
  EXPECT_THAT(run.err, AllOf(HasSubstr("the request was refused: the job is not valid."),
                             HasSubstr("--num-experts: 7 is not divisible by ep 2 "
                                       "[experts_divide]")));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST_F(CommandsTest, AnUnreachableServerExitsWithThree) {
  const RunOutcome run = RunWords({"info", "--server", "unix:" + (root_ / "none").string()});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot be reached"), HasSubstr("hapmoed --listen")));
}

TEST_F(CommandsTest, UnavailableIsTriedFourTimesAndOtherFailuresOnce) {
  std::atomic<int> calls = 0;
  fake_.info = [&calls](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse& response) {
    if (++calls < 4) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    response.set_version("1");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"info"}).code, kDone);
  EXPECT_EQ(calls, 4);

  calls = 0;
  fake_.info = [&calls](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse&) {
    ++calls;
    return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  };
  const RunOutcome run = Run({"info"});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, HasSubstr("failed (status 13): broken."));
  EXPECT_EQ(calls, 1);
}

TEST_F(CommandsTest, TheDeadlineIsAlwaysSet) {
  fake_.info = [](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"info", "--deadline", "100ms"});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("within the deadline"), HasSubstr("--deadline")));
}

TEST_F(CommandsTest, TheOptionGoesBeforeTheVariable) {
  fake_.info = [](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse& response) {
    response.set_version("9.9");
    response.add_engines("megatron-lm");
    response.mutable_max_time_budget()->set_seconds(10);
    return grpc::Status::OK;
  };
  const RunOutcome run = RunWords({"info", "--server", fake_.address()}, "", "127.0.0.1:1");
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(run.out, AllOf(HasSubstr("9.9"), HasSubstr("megatron-lm"), HasSubstr("10.00 s")));
}

TEST_F(CommandsTest, EvaluateSendsTheLayoutAndAMisfitIsAnAnswer) {
  v1::EvaluateRequest sent;
  fake_.evaluate = [&sent](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    sent = request;
    v1::Stage& stage = *response.mutable_plan()->add_meshes()->add_stages();
    stage.set_ranks(1);
    stage.mutable_memory()->set_peak_bytes(int64_t{90} << 30);
    stage.mutable_memory()->set_budget_bytes(int64_t{80} << 30);
    response.mutable_prediction()->set_iteration_seconds(2);
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"evaluate", "--cluster", cluster_, "--world-size", "16", "--headroom",
                              "0", "--", "--tensor-model-parallel-size", "2"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("DOES NOT FIT"),
                             HasSubstr("stage 0 needs 10.00 GiB more than its 80.00 GiB")));
  EXPECT_EQ(sent.world_size(), 16);
  EXPECT_TRUE(sent.has_memory_headroom_ratio());
  EXPECT_THAT(sent.job().megatron_args(), ElementsAre("--tensor-model-parallel-size", "2"));
}

TEST_F(CommandsTest, PlanSendsItsObjective) {
  const std::string priced =
      Write("priced.yaml",
            "pools: [{name: a, accelerator: H800, nodes: 4, price_per_accelerator_hour: 2.5}]\n");
  const RunOutcome run = Run({"plan", "--cluster", priced, "--objective", "price",
                              "--deadline-seconds", "3", "--", "--num-layers", "32"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(plan_request_.problem().objective().kind(), v1::Objective::KIND_PRICE);
  EXPECT_EQ(plan_request_.problem().objective().deadline_seconds(), 3);
  EXPECT_EQ(plan_request_.problem().cluster().pools(0).price_per_accelerator_hour(), 2.5);
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--", "--num-layers", "32"}).code, kDone);
  EXPECT_FALSE(plan_request_.problem().has_objective());
}

TEST_F(CommandsTest, FrontierSendsSizesAndShowsPoints) {
  v1::FrontierRequest sent;
  fake_.frontier = [&sent](const v1::FrontierRequest& request, v1::FrontierResponse& response) {
    sent = request;
    v1::FrontierPoint& point = *response.add_points();
    v1::PoolNodes& nodes = *point.add_allocation();
    nodes.set_pool("a");
    nodes.set_nodes(2);
    point.set_iteration_seconds(1.5);
    return grpc::Status::OK;
  };
  const std::vector<std::string> words = {
      "frontier", "--cluster",    cluster_,       "--sizes", "a=2", "--memory-steps",
      "1",        "--allow-idle", "--request-id", "r1",      "--",  "--num-layers",
      "32"};
  const RunOutcome run = Run(words);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("a 2 nodes"), HasSubstr("1.500 s")));
  EXPECT_EQ(sent.request_id(), "r1");
  EXPECT_EQ(sent.memory_steps(), 1);
  ASSERT_EQ(sent.sizes_size(), 1);
  EXPECT_THAT(sent.sizes(0).nodes(), ElementsAre(2));
  EXPECT_TRUE(sent.problem().constraints().allow_idle_accelerators());
  EXPECT_THAT(sent.problem().job().megatron_args(), ElementsAre("--num-layers", "32"));

  std::vector<std::string> json = words;
  json.insert(json.begin() + 1, {"-o", "json"});
  v1::FrontierResponse printed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Run(json).out, &printed).ok());
  EXPECT_EQ(printed.points(0).iteration_seconds(), 1.5);
}

TEST_F(CommandsTest, ExplainSendsTheLayoutAndShowsSentences) {
  v1::ExplainRequest sent;
  fake_.explain = [&sent](const v1::ExplainRequest& request, v1::ExplainResponse& response) {
    sent = request;
    response.add_sentences("It is slower.");
    return grpc::Status::OK;
  };
  const std::vector<std::string> words = {
      "explain", "--cluster", cluster_, "--world-size", "16", "--", "--tensor-model-parallel-size",
      "2"};
  const RunOutcome run = Run(words);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_THAT(run.out, HasSubstr("- It is slower.\n"));
  EXPECT_EQ(sent.world_size(), 16);
  EXPECT_THAT(sent.problem().job().megatron_args(),
              ElementsAre("--tensor-model-parallel-size", "2"));

  std::vector<std::string> json = words;
  json.insert(json.begin() + 1, {"-o", "json"});
  v1::ExplainResponse printed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Run(json).out, &printed).ok());
  EXPECT_THAT(printed.sentences(), ElementsAre("It is slower."));
}

TEST_F(CommandsTest, FailuresOfFrontierAndExplainAreReported) {
  fake_.frontier = [](const v1::FrontierRequest&, v1::FrontierResponse&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "too many allocations");
  };
  fake_.explain = [](const v1::ExplainRequest&, v1::ExplainResponse&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "nothing fits");
  };
  for (const std::string command : {"frontier", "explain"}) {
    SCOPED_TRACE(command);
    const RunOutcome run = Run({command, "--cluster", cluster_, "--", "--bf16"});
    EXPECT_EQ(run.code, kRefused);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(command == "frontier" ? "too many" : "nothing fits"));
    EXPECT_EQ(Run({command, "--", "--bf16"}).code, kUsage);
  }
}

TEST_F(CommandsTest, ProfilesAreListedOverAllPages) {
  fake_.list = [](const v1::ListProfilesRequest& request, v1::ListProfilesResponse& response) {
    v1::ProfileSummary& profile = *response.add_profiles();
    profile.set_accelerator(request.page_token().empty() ? "A100" : "H800");
    profile.set_memory_capacity_bytes(80.0 * 1024 * 1024 * 1024);
    profile.set_matrix_flops_per_second(312e12);
    profile.set_origin(v1::PROFILE_ORIGIN_BUILT_IN);
    if (request.page_token().empty()) response.set_next_page_token("2");
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"profiles", "list"});
  EXPECT_EQ(run.code, kDone);
  EXPECT_EQ(run.out,
            "Accelerator  Aliases  Vendor  Memory GiB  TFLOP/s  Samples  Origin\n"
            "A100                               80.00    312.0        0  built in\n"
            "H800                               80.00    312.0        0  built in\n");
}

TEST_F(CommandsTest, AProfileThatWasPrintedCanBePutBack) {
  v1::AcceleratorProfile stored;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(accelerator: "X1"
           vendor: "V"
           architecture: "a"
           aliases: "X"
           compute { bf16_flops_per_second { value: 1e15 source: "datasheet" } })pb",
      &stored));
  fake_.get = [&stored](const v1::GetProfileRequest& request, v1::GetProfileResponse& response) {
    EXPECT_EQ(request.accelerator(), "x1");
    *response.mutable_profile() = stored;
    response.set_version(3);
    response.set_origin(v1::PROFILE_ORIGIN_STORED);
    return grpc::Status::OK;
  };
  v1::AcceleratorProfile put;
  fake_.put = [&put](const v1::PutProfileRequest& request, v1::PutProfileResponse& response) {
    put = request.profile();
    response.set_version(4);
    return grpc::Status::OK;
  };
  EXPECT_THAT(Run({"profiles", "get", "x1"}).out,
              AllOf(StartsWith("X1, V a, stored, version 3\nalso called X\n"),
                    HasSubstr("bf16_flops_per_second  1e+15  datasheet")));
  const RunOutcome get = Run({"profiles", "get", "x1", "-o", "json"});
  const RunOutcome run = Run({"profiles", "put", "-"}, get.out);
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(run.out, "X1 stored as version 4\n");
  EXPECT_EQ(put.SerializeAsString(), stored.SerializeAsString());

  const std::string file = Write("bad.json", "{\"accelerator\": \"X\", \"speed\": 3}");
  const RunOutcome bad = Run({"profiles", "put", file});
  EXPECT_EQ(bad.code, kUsage);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("bad.json: not a profile"), HasSubstr("speed")));
}

v1::AcceleratorProfile MeasuredProfile() {
  v1::AcceleratorProfile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(accelerator: "H800-SXM"
           compute {
             bf16_flops_per_second { value: 1e15 }
             fp8_flops_per_second { value: 2e15 }
           }
           tables {
             kind: OPERATION_KIND_GEMM
             precision: PRECISION_BF16
             stated_error: 0.05
             m: [ 256, 4096, 1024 ]
             n: [ 512, 512, 512 ]
             k: [ 64, 64, 128 ]
             groups: [ 1, 1, 1 ]
             microseconds: [ 1, 2, 3 ]
             source: "bench 1"
           }
           collectives {
             primitive: COLLECTIVE_PRIMITIVE_ALL_GATHER
             ranks: 8
             bytes: [ 1024, 1048576 ]
             seconds: [ 1e-5, 1e-4 ]
             held_bytes: [ 4096 ]
             held_seconds: [ 1e-5 ]
             error_bound: 0.125
             source: "bench 2"
           }
           collectives {
             primitive: COLLECTIVE_PRIMITIVE_ALL_TO_ALL
             ranks: 8
             bytes: [ 1024 ]
             seconds: [ 1e-5 ]
             source: "bench 3"
           })pb",
      &profile));
  return profile;
}

TEST_F(CommandsTest, CoverageListsWhatIsMeasuredAndWhatIsNot) {
  fake_.get = [](const v1::GetProfileRequest&, v1::GetProfileResponse& response) {
    *response.mutable_profile() = MeasuredProfile();
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"profiles", "coverage", "h800"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(run.out,
            "H800-SXM\n"
            "Measured  Precision  Samples           m    n        k  Groups  Error  Source\n"
            "gemm      bf16             3  256..4,096  512  64..128       1  5.0 %  bench 1\n"
            "Measured    Ranks  Points             Bytes     Error  Source\n"
            "all_gather      8       2  1,024..1,048,576    12.5 %  bench 2\n"
            "all_to_all      8       1             1,024  not said  bench 3\n"
            "Not measured in 16 bit: grouped_gemm, attention, attention_backward\n"
            "Not measured in 8 bit: gemm, grouped_gemm\n\n");
}

TEST_F(CommandsTest, CoverageOfAJobSaysWhatItsTimeRestsOn) {
  v1::EvaluateRequest asked;
  fake_.evaluate = [&asked](const v1::EvaluateRequest& request, v1::EvaluateResponse& response) {
    asked = request;
    v1::Prediction& prediction = *response.mutable_prediction();
    prediction.set_iteration_seconds(2);
    prediction.set_low_iteration_seconds(1.5);
    prediction.set_high_iteration_seconds(2.5);
    prediction.mutable_basis()->set_measured_ratio(0.5);
    prediction.mutable_basis()->set_interpolated_ratio(0.25);
    prediction.mutable_basis()->set_analytic_ratio(0.125);
    prediction.mutable_basis()->set_communication_ratio(0.1);
    prediction.mutable_basis()->set_launch_ratio(0.025);
    for (int i = 0; i < 20; ++i) {
      v1::OperationCoverage& one = *response.add_operations();
      one.set_accelerator("H800-SXM");
      one.set_operation(i == 0 ? "experts_fc1" : "norm");
      one.set_m(i == 0 ? 8192 : 0);
      one.set_n(i == 0 ? 4096 : 0);
      one.set_k(i == 0 ? 1024 : 0);
      one.set_groups(i == 0 ? 8 : 0);
      one.set_time_ratio(0.0625);
      one.set_measured_ratio(i == 0 ? 0.25 : 0);
      one.set_interpolated_ratio(i == 0 ? 0.125 : 0);
    }
    return grpc::Status::OK;
  };
  std::vector<std::string> shown;
  fake_.get = [&shown](const v1::GetProfileRequest& request, v1::GetProfileResponse& response) {
    shown.push_back(request.accelerator());
    *response.mutable_profile() = MeasuredProfile();
    return grpc::Status::OK;
  };
  const RunOutcome run =
      Run({"profiles", "coverage", "--cluster", cluster_, "--world-size", "8", "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(asked.world_size(), 8);
  EXPECT_THAT(asked.job().megatron_args(), ElementsAre("--bf16"));
  EXPECT_THAT(shown, ElementsAre("H800"));
  EXPECT_THAT(run.out, StartsWith("An iteration of 2.000 s (1.500 s to 2.500 s) rests on\n"
                                  "  measured shapes          50.0 %\n"
                                  "  between measured shapes  25.0 %\n"
                                  "  calculated               12.5 %\n"
                                  "  communication            10.0 %\n"
                                  "  host launches             2.5 %\n"));
  EXPECT_TRUE(asked.list_operations());
  EXPECT_THAT(
      run.out,
      HasSubstr("Least measured      m      n      k  Groups   Time  Measured  Between  Calculated"
                "  On\n"
                "experts_fc1     8,192  4,096  1,024       8  6.2 %    25.0 %   12.5 %      62.5 %"
                "  H800-SXM\n"
                "norm                                         6.2 %     0.0 %    0.0 %     100.0 %"
                "  H800-SXM\n"));
  // A screen of the worst, not all twenty: the first and eleven more.
  size_t norms = 0;
  for (size_t at = run.out.find("\nnorm "); at != std::string::npos;
       at = run.out.find("\nnorm ", at + 1)) {
    ++norms;
  }
  EXPECT_EQ(norms, 11u);
  EXPECT_THAT(run.out, HasSubstr("H800-SXM\nMeasured "));
}

TEST_F(CommandsTest, ProfilesAreDeleted) {
  fake_.remove = [](const v1::DeleteProfileRequest& request, v1::DeleteProfileResponse&) {
    if (request.accelerator() == "H800") return grpc::Status::OK;
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no profile for X");
  };
  EXPECT_EQ(Run({"profiles", "delete", "H800"}).out, "H800 deleted\n");
  EXPECT_EQ(Run({"profiles", "delete", "X"}).code, kRefused);
}

}  // namespace
}  // namespace hapmoe::client
