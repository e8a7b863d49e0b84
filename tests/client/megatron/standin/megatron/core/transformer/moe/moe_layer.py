"""Router, dispatch, experts, combine."""

import torch

from megatron.core import parallel_state

from .experts import SequentialMLP
from .router import TopKRouter
from .token_dispatcher import MoEAlltoAllTokenDispatcher


class MoELayer(torch.nn.Module):
    def __init__(self, config, mlp, layer_number):
        super().__init__()
        ranks = parallel_state.get_expert_model_parallel_world_size()
        self.router = TopKRouter(config, layer_number)
        self.experts = SequentialMLP(config, mlp, config.num_experts // ranks, ranks > 1)
        self.token_dispatcher = MoEAlltoAllTokenDispatcher(config)

    def forward(self, hidden_states):
        probs, routing_map = self.router(hidden_states)
        dispatcher = self.token_dispatcher
        flat = hidden_states.reshape(-1, hidden_states.shape[-1])
        rows = dispatcher.dispatch_preprocess(flat, routing_map, probs)
        rows, counts = dispatcher.dispatch_postprocess(dispatcher.token_dispatch(rows))
        rows = self.experts(rows, counts)
        rows = dispatcher.token_combine(dispatcher.combine_preprocess(rows))
        return dispatcher.combine_postprocess(rows).view(hidden_states.shape)
