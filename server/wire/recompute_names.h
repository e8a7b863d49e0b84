// Megatron-LM's names of the modules that selective recomputation names, in the order of the bits.
#ifndef HAPMOE_SERVER_WIRE_RECOMPUTE_NAMES_H_
#define HAPMOE_SERVER_WIRE_RECOMPUTE_NAMES_H_

#include <utility>

#include "core/model/training_spec.h"

namespace hapmoe::server {

inline constexpr std::pair<model::RecomputeModule, const char*> kModuleNames[] = {
    {model::kRecomputeCoreAttention, "core_attn"},
    {model::kRecomputeMoeActivation, "moe_act"},
    {model::kRecomputeLayerNorm, "layernorm"},
    {model::kRecomputeMlaUpProjection, "mla_up_proj"},
    {model::kRecomputeMlp, "mlp"},
    {model::kRecomputeMoe, "moe"},
    {model::kRecomputeSharedExperts, "shared_experts"},
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_WIRE_RECOMPUTE_NAMES_H_
