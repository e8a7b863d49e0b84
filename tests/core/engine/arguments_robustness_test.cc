// Whatever the bytes, an argument list is read in bounded time and memory and never crashes.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "core/engine/megatron_job.h"
#include "core/plan/pipeline_layout.h"
#include "gtest/gtest.h"
#include "tests/core/engine/argument_lists.h"

namespace hapmoe::engine {
namespace {

constexpr uint32_t kSeed = 20260822;

// Reads the list as a server would, up to the plan if there is one. Returns the number of faults.
size_t Read(const Argv& argv) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(argv, violations);
  for (int64_t world_size : {int64_t{1}, int64_t{8}, int64_t{12}, int64_t{1024}}) {
    const Violations more = CheckMegatronJob(job, {.world_size = world_size});
    if (!violations.empty() || !more.empty()) continue;
    const plan::Plan plan = PlanFromJob(job, world_size);
    EXPECT_EQ(plan.world_size(), world_size);
    int64_t layers = 0;
    for (const plan::Stage& stage : plan.meshes[0].stages) layers += stage.layers();
    EXPECT_EQ(layers, job.model.layers);
  }
  return violations.size();
}

std::string RandomText(std::mt19937& random, size_t longest) {
  static constexpr char kLikely[] = "-=_*|()[],+.0123456789EtmLe \t\n\0\xff\xc3\xa9";
  std::string text(random() % (longest + 1), ' ');
  for (char& c : text) {
    c = random() % 4 == 0 ? static_cast<char>(random() % 256)
                          : kLikely[random() % (sizeof(kLikely) - 1)];
  }
  return text;
}

// A few random changes to a list: words dropped, doubled, swapped, replaced, bytes changed.
Argv Mutate(Argv argv, std::mt19937& random) {
  const auto options = MegatronOptions();
  static const std::vector<std::string> kValues = {"0",
                                                   "-1",
                                                   "1",
                                                   "3",
                                                   "9223372036854775807",
                                                   "99999999999999999999",
                                                   "1e308",
                                                   "nan",
                                                   "-inf",
                                                   "",
                                                   "--",
                                                   "([0]*3+[1]*29)",
                                                   "[1]*99999",
                                                   "Et*8|t*8|t*8|t*8L",
                                                   "(|)*9999,t*9999L",
                                                   "((((((",
                                                   "t*99999999999999999999",
                                                   std::string(1000, '(')};
  for (uint32_t change = random() % 6; change > 0 && !argv.empty(); --change) {
    const size_t at = random() % argv.size();
    switch (random() % 7) {
      case 0:
        argv.erase(argv.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        argv.insert(argv.begin() + static_cast<std::ptrdiff_t>(at), argv[at]);
        break;
      case 2:
        std::swap(argv[at], argv[random() % argv.size()]);
        break;
      case 3:
        argv[at] = kValues[random() % kValues.size()];
        break;
      case 4:
        if (!argv[at].empty()) argv[at][random() % argv[at].size()] = static_cast<char>(random());
        break;
      case 5: {
        const absl::string_view flags = options[random() % options.size()].flags;
        argv.push_back(std::string(flags.substr(0, flags.find(' '))));
        if (random() % 2 == 0) argv.push_back(kValues[random() % kValues.size()]);
        break;
      }
      case 6:
        argv.insert(argv.begin() + static_cast<std::ptrdiff_t>(at), RandomText(random, 40));
        break;
    }
  }
  return argv;
}

TEST(Robustness, RandomBytes) {
  std::mt19937 random(kSeed);
  for (int i = 0; i < 500; ++i) {
    Argv argv(random() % 12);
    for (std::string& word : argv) {
      word = (random() % 2 == 0 ? "--" : "") + RandomText(random, 60);
    }
    Read(argv);
  }
}

TEST(Robustness, MutatedJobs) {
  std::mt19937 random(kSeed);
  const Argv jobs[] = {
      With(Dense(),
           "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
           "--sequence-parallel --pipeline-model-parallel-layout Et*8|t*8|t*8|t*8L"),
      With(Experts(),
           "--expert-model-parallel-size 4 --recompute-granularity full "
           "--recompute-method block --recompute-num-layers 2"),
      With(Latent(),
           "--pipeline-model-parallel-size 4 --expert-tensor-parallel-size 1 "
           "--expert-model-parallel-size 2 "
           "--pipeline-model-parallel-layout Et*15|t*16|t*15|t*15mL")};
  size_t accepted = 0;
  for (int i = 0; i < 3000; ++i) accepted += Read(Mutate(jobs[i % 3], random)) == 0 ? 1 : 0;
  // Mutations are small enough that both outcomes are exercised.
  EXPECT_GT(accepted, 300u);
  EXPECT_LT(accepted, 2700u);
}

TEST(Robustness, EveryOptionWithOddValues) {
  for (const MegatronOption& option : MegatronOptions()) {
    const std::string flag(option.flags.substr(0, option.flags.find(' ')));
    for (const char* value : {"", "0", "-1", "1", "99999999999999999999", "nan", "[1]*32", "x"}) {
      Argv argv = Dense();
      argv.push_back(flag);
      if (option.arity != Arity::kNone) argv.push_back(value);
      Read(argv);
    }
  }
}

TEST(Robustness, HostileSizesAreAnsweredAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const Argv dense = Dense();
  Argv unknown;
  for (int i = 0; i < 20000; ++i) unknown.push_back("--unknown-option-" + std::to_string(i));
  Read(unknown);
  Read(Argv(20000, "--swiglu"));
  Read(Argv{"--recompute-modules", std::string(1 << 20, 'x')});
  const auto layout = [&](const std::string& text) {
    Argv argv = dense;
    argv.push_back("--pipeline-model-parallel-layout");
    argv.push_back(text);
    Read(argv);
  };
  layout(std::string(1 << 16, '('));
  layout(std::string(1 << 16, '(') + ")*2");
  layout("(" + std::string(30000, 't') + ")*2(" + std::string(30000, '|') + ")*9999");
  layout("((((t)*99)*99)*99)*99");
  layout("t*9999999999999999999999999999");
  Argv pattern = Experts();
  pattern.push_back("--moe-layer-freq");
  std::string sum = "[0]*9999";
  while (sum.size() < (1 << 16) - 16) sum += "+[0]*0";
  pattern.push_back(sum);
  Read(pattern);
  // Far above what it takes, so that a busy machine does not fail it.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace hapmoe::engine
