#include "core/search/baselines/baselines.h"

#include "core/search/baselines/ablations.h"
#include "core/search/baselines/alpa.h"
#include "core/search/baselines/deepspeed_moe.h"
#include "core/search/baselines/heter_moe.h"
#include "core/search/baselines/metis.h"
#include "core/search/baselines/tutel.h"
#include "core/search/baselines/uniform_megatron.h"

namespace hapmoe::search {

Baselines MixedBaselines() {
  Baselines baselines;
  baselines.push_back(std::make_unique<UniformMegatron>());
  baselines.push_back(std::make_unique<AlpaStyle>());
  baselines.push_back(std::make_unique<HeterMoeStyle>());
  baselines.push_back(std::make_unique<MetisStyle>());
  return baselines;
}

Baselines OneTypeBaselines() {
  Baselines baselines;
  baselines.push_back(std::make_unique<UniformMegatron>());
  baselines.push_back(std::make_unique<DeepSpeedMoeStyle>());
  baselines.push_back(std::make_unique<TutelStyle>());
  return baselines;
}

Baselines Ablations() {
  Baselines baselines;
  baselines.push_back(std::make_unique<LayersUniform>());
  baselines.push_back(std::make_unique<LayersEven>());
  baselines.push_back(std::make_unique<RecomputeUniform>());
  return baselines;
}

}  // namespace hapmoe::search
