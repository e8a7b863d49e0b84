"""Tokens to the ranks of their experts and back, by all-to-all."""

import torch
import torch.distributed as dist

from megatron.core import parallel_state


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, rows, received, sent):
        ctx.group, ctx.received, ctx.sent = group, received, sent
        output = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(output, rows.contiguous(), received, sent, group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        output = grad.new_empty(sum(ctx.sent), grad.shape[1])
        dist.all_to_all_single(output, grad.contiguous(), ctx.sent, ctx.received, group=ctx.group)
        return None, output, None, None


class MoEAlltoAllTokenDispatcher:
    def __init__(self, config):
        self.ranks = parallel_state.get_expert_model_parallel_world_size()
        self.group = parallel_state.get_expert_model_parallel_group()
        self.local = config.num_experts // self.ranks

    def dispatch_preprocess(self, hidden_states, routing_map, probs):
        self.counts = routing_map.sum(dim=0)
        expert, token = routing_map.t().nonzero(as_tuple=True)
        self.token, self.tokens = token, hidden_states.shape[0]
        self.probs = probs[token, expert]
        return hidden_states.index_select(0, token)

    def token_dispatch(self, rows):
        if self.ranks == 1:
            self.received_counts = self.counts.view(1, -1)
            return rows
        received = torch.empty_like(self.counts)
        dist.all_to_all_single(received, self.counts, group=self.group)
        self.received_counts = received.view(self.ranks, self.local)
        self.sent = self.counts.view(self.ranks, self.local).sum(dim=1).tolist()
        self.received = self.received_counts.sum(dim=1).tolist()
        return _Exchange.apply(self.group, rows, self.received, self.sent)

    def dispatch_postprocess(self, rows):
        """Sorted by local expert, and the rows of each."""
        if self.ranks == 1:
            return rows, self.counts.tolist()
        pieces = rows.split(self.received_counts.flatten().tolist())
        grid = [pieces[r * self.local : (r + 1) * self.local] for r in range(self.ranks)]
        ordered = [grid[r][e] for e in range(self.local) for r in range(self.ranks)]
        return torch.cat(ordered), self.received_counts.sum(dim=0).tolist()

    def combine_preprocess(self, rows):
        if self.ranks == 1:
            return rows
        sizes = self.received_counts.t().flatten().tolist()
        pieces = rows.split(sizes)
        grid = [pieces[e * self.ranks : (e + 1) * self.ranks] for e in range(self.local)]
        return torch.cat([grid[e][r] for r in range(self.ranks) for e in range(self.local)])

    def token_combine(self, rows):
        if self.ranks == 1:
            return rows
        return _Exchange.apply(self.group, rows, self.sent, self.received)

    def combine_postprocess(self, rows):
        output = rows.new_zeros(self.tokens, rows.shape[1])
        return output.index_add(0, self.token, rows * self.probs.unsqueeze(-1))
