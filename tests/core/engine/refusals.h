// Jobs that Megatron-LM refuses, and the rules that each of them breaks.
#ifndef HAPMOE_TESTS_CORE_ENGINE_REFUSALS_H_
#define HAPMOE_TESTS_CORE_ENGINE_REFUSALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/megatron_rules.h"
#include "tests/core/engine/argument_lists.h"

namespace hapmoe::engine {

inline const plan::Environment kOneConnection = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};

struct Refusal {
  std::string name;
  Argv argv;
  int64_t world_size;
  std::vector<std::string> rules;
  std::string words;  // Held by the first message.
  plan::Environment environment = kOneConnection;
  int architecture = 9;
};

inline constexpr char kTp2Pp4[] =
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel ";

inline Argv D(const std::string& words) { return With(Dense(), words); }
inline Argv DenseTp2Pp4(const std::string& words) { return With(Dense(), kTp2Pp4 + words); }
inline Argv E(const std::string& words) { return With(Experts(), words); }
inline Argv L(const std::string& words) { return With(Latent(), words); }

std::vector<Refusal> WorldAndDimensions();
std::vector<Refusal> BatchAndLayers();
std::vector<Refusal> Layouts();
std::vector<Refusal> Recomputation();
std::vector<Refusal> ExpertOptions();
std::vector<Refusal> OptimizerAndPrecision();

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_REFUSALS_H_
