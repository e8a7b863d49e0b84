"""Top-k routing."""

import torch
import torch.nn.functional as functional


class TopKRouter(torch.nn.Module):
    def __init__(self, config, layer_number):
        super().__init__()
        self.layer_number = layer_number
        self.topk = config.moe_router_topk
        self.weight = torch.nn.Parameter(torch.randn(config.num_experts, config.hidden_size) * 0.02)

    def forward(self, input, padding_mask=None):
        """Probabilities and routing map, [tokens, experts] each."""
        logits = functional.linear(input.reshape(-1, input.shape[-1]), self.weight)
        scores, experts = torch.softmax(logits, dim=-1).topk(self.topk, dim=-1)
        scores = scores / scores.sum(dim=-1, keepdim=True)
        probs = torch.zeros_like(logits).scatter(1, experts, scores)
        return probs, torch.zeros_like(logits, dtype=torch.bool).scatter(1, experts, True)
