"""The experts of one rank, one after the other."""

import torch


class SequentialMLP(torch.nn.Module):
    def __init__(self, config, mlp, local_experts, expert_parallel):
        super().__init__()
        self.local_experts = torch.nn.ModuleList(
            mlp(config, config.moe_ffn_hidden_size) for _ in range(local_experts)
        )
        for parameter in self.parameters():
            parameter.allreduce = not expert_parallel

    def forward(self, rows, tokens_per_expert):
        pieces = rows.split(tokens_per_expert)
        return torch.cat([expert(piece) for expert, piece in zip(self.local_experts, pieces)])
