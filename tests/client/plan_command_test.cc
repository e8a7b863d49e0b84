// hapmoe plan: what is sent, what is written and what is shown.
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands_fixture.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
  const std::string file = root_.Write("args", "# job\n--num-layers 32 --save 'a b'\n");
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--args-file", file}).code, kDone);
  EXPECT_THAT(plan_request_.problem().job().megatron_args(),
              ElementsAre("--num-layers", "32", "--save", "a b"));
  EXPECT_EQ(Run({"plan", "--cluster", cluster_, "--args-file", "-"}, "[\"--bf16\"]").code, kDone);
  EXPECT_THAT(plan_request_.problem().job().megatron_args(), ElementsAre("--bf16"));
}

// The launch of a script that is planned.
TEST_F(CommandsTest, ScriptsOfSeveralLaunches) {
  const auto plan = [this](const std::string& text, std::vector<std::string> more = {}) {
    plan_request_.Clear();
    std::vector<std::string> words = {
        "plan",  "--cluster", cluster_, "--script", root_.Write("job.sh", text), "--script-reading",
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

// Only where a launcher comes out that does not set them, and without their values, which may be
// secrets.
TEST_F(CommandsTest, ExportedVariablesAreNamedWhereALauncherNeedsThem) {
  const auto run = [this](const std::string& command, const std::string& exports) {
    const std::string file =
        root_.Write("job.sh", exports + "torchrun pretrain_gpt.py --num-layers 2\n");
    return Run({command, "--cluster", cluster_, "--script", file, "--script-reading", "static"});
  };
  const std::string plain = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  const std::string more = "export CUDA_DEVICE_MAX_CONNECTIONS=1 NCCL_NET=hush OMP_NUM_THREADS=4\n";
  const RunOutcome planned = run("plan", more);
  EXPECT_EQ(planned.code, kDone) << planned.err;
  EXPECT_THAT(planned.err, AllOf(HasSubstr("where its launcher runs: NCCL_NET OMP_NUM_THREADS\n"),
                                 Not(HasSubstr("hush")), Not(HasSubstr("CUDA_DEVICE"))));
  EXPECT_THAT(run("plan", plain).err, Not(HasSubstr("exports variables")));
  const RunOutcome frontier = run("frontier", more);
  EXPECT_NE(frontier.code, kUsage) << frontier.err;
  EXPECT_THAT(frontier.err, Not(HasSubstr("exports variables")));
}

TEST_F(CommandsTest, FlagScaleFilesAreScripts) {
  const std::string file = root_.Write("train.yaml",
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

TEST_F(CommandsTest, PlanSendsWhatTheRouterWasSeenToDo) {
  const std::string file = root_.Write("stats.json", "[[3, 1], [2, 2]]");
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

TEST_F(CommandsTest, PlanSendsItsObjective) {
  const std::string priced = root_.Write(
      "priced.yaml",
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

TEST_F(CommandsTest, PlanSendsWhatTheSchedulerIsToldAndSaysWhatToType) {
  const std::string file = root_.Write("site.yaml", "scheduler: volcano\nqueue: a\n");
  for (const char* word : {"sbatch", "{}/job.sbatch", "{}"}) answer_.add_submit_command(word);
  const fs::path out = root_ / "it's";
  RunOutcome run = Run({"plan", "--cluster", cluster_, "--scheduler", "slurm", "--scheduler-file",
                        file, "--out", out, "--", "--bf16"});
  EXPECT_EQ(run.code, kDone) << run.err;
  EXPECT_EQ(plan_request_.launch().scheduler(), "slurm");
  EXPECT_EQ(plan_request_.launch().queue(), "a");
  const std::string quoted = "'" + root_.path().string() + "/it'\\''s";
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
  EXPECT_EQ(root_.Read(out / "launch.sh"), "#!/bin/bash\n");
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

}  // namespace
}  // namespace hapmoe::client
