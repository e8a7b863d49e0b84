#include "tests/trial/requests.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/jobs.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::trial {
namespace {

constexpr uint32_t kNodes = 32;  // Of each of two pools.

// A job's length in iterations changes nothing about its plan, and the last value of an option
// counts.
void SetIterations(v1::Job& job, int64_t number) {
  job.add_megatron_args("--train-iters");
  job.add_megatron_args(absl::StrCat(1000 + number));
}

v1::Problem LargeProblem(const std::vector<std::string>& job, int64_t number,
                         std::chrono::milliseconds budget) {
  v1::Problem problem;
  for (const std::string& argument : job) {
    problem.mutable_job()->add_megatron_args(argument);
  }
  SetIterations(*problem.mutable_job(), number);
  *problem.mutable_cluster() = bench::ClusterOf({{"H800", kNodes}, {"A100-SXM-80GB", kNodes}});
  auto& time = *problem.mutable_constraints()->mutable_time_budget();
  time.set_seconds(budget.count() / 1000);
  time.set_nanos(static_cast<int32_t>(budget.count() % 1000 * 1'000'000));
  return problem;
}

}  // namespace

v1::PlanRequest SmallPlan(int64_t number) {
  v1::PlanRequest request = server::SmallPlanRequest();
  request.clear_request_id();
  SetIterations(*request.mutable_problem()->mutable_job(), number);
  return request;
}

v1::EvaluateRequest SmallEvaluate() { return server::SmallEvaluateRequest(); }

v1::FrontierRequest SmallFrontier(int64_t number) {
  v1::FrontierRequest request;
  *request.mutable_problem() = SmallPlan(number).problem();
  request.set_memory_steps(2);
  return request;
}

v1::ExplainRequest SmallExplain(int64_t number) {
  v1::ExplainRequest request;
  *request.mutable_problem() = SmallPlan(number).problem();
  *request.mutable_problem()->mutable_job() = server::SmallEvaluateRequest().job();
  SetIterations(*request.mutable_problem()->mutable_job(), number);
  return request;
}

v1::IterationReport SmallReport(double iteration_seconds) {
  v1::IterationReport report;
  *report.mutable_job() = SmallEvaluate().job();
  *report.mutable_cluster() = server::ClusterOf("A100-SXM-80GB", 1);
  report.set_iteration_seconds(iteration_seconds);
  return report;
}

v1::PlanRequest LongPlan(int64_t number, std::chrono::milliseconds budget) {
  v1::PlanRequest request;
  *request.mutable_problem() = LargeProblem(bench::DeepSeekV3(), number, budget);
  request.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_PRICE);
  double price = 2;
  for (v1::Pool& pool : *request.mutable_problem()->mutable_cluster()->mutable_pools()) {
    pool.set_price_per_accelerator_hour(price);
    price /= 2;
  }
  return request;
}

v1::FrontierRequest LongFrontier(int64_t number, std::chrono::milliseconds budget) {
  v1::FrontierRequest request;
  *request.mutable_problem() = LargeProblem(bench::Mixtral8x7B(), number, budget);
  for (const v1::Pool& pool : request.problem().cluster().pools()) {
    v1::PoolSizes& sizes = *request.add_sizes();
    sizes.set_pool(pool.name());
    for (uint32_t nodes = 2; nodes < kNodes; nodes += 2) sizes.add_nodes(nodes);
  }
  request.set_memory_steps(8);
  return request;
}

v1::StreamPlanRequest Streamed(const v1::PlanRequest& request) {
  v1::StreamPlanRequest streamed;
  *streamed.mutable_problem() = request.problem();
  *streamed.mutable_launch() = request.launch();
  streamed.set_cache_policy(request.cache_policy());
  return streamed;
}

}  // namespace hapmoe::trial
