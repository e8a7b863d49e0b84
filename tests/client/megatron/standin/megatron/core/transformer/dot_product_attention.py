"""Causal attention without fusion."""

import math

import torch


class DotProductAttention(torch.nn.Module):
    def forward(self, query, key, value, attention_mask):
        """[s, b, heads, head] each; the mask is true where a query must not see."""
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(attention_mask, float("-inf"))
        context = torch.matmul(torch.softmax(scores, dim=-1), value)
        return context.permute(2, 0, 1, 3).reshape(context.shape[2], context.shape[0], -1)
