"""Top-k routing."""

import torch

from megatron.core.tensor_parallel.layers import Linear


class TopKRouter(torch.nn.Module):
    def __init__(self, config, layer_number):
        super().__init__()
        self.layer_number = layer_number
        self.topk = config.moe_router_topk
        self.gate = Linear(config.hidden_size, config.num_experts)

    def forward(self, input, padding_mask=None):
        """Probabilities and routing map, [tokens, experts] each."""
        logits = self.gate(input.reshape(-1, input.shape[-1]))
        scores, experts = torch.softmax(logits, dim=-1).topk(self.topk, dim=-1)
        scores = scores / scores.sum(dim=-1, keepdim=True)
        probs = torch.zeros_like(logits).scatter(1, experts, scores)
        return probs, torch.zeros_like(logits, dtype=torch.bool).scatter(1, experts, True)
