"""One decoder layer."""

import torch
import torch.nn.functional as functional

from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear

from .dot_product_attention import DotProductAttention
from .moe.moe_layer import MoELayer


class SelfAttention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.linear_qkv = ColumnParallelLinear(config.hidden_size, 3 * config.hidden_size)
        self.core_attention = DotProductAttention()
        self.linear_proj = RowParallelLinear(config.hidden_size, config.hidden_size)
        length = config.seq_length
        mask = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, hidden_states):
        s, b, _ = hidden_states.shape
        mixed = self.linear_qkv(hidden_states).view(s, b, self.heads, -1)
        query, key, value = mixed.chunk(3, dim=-1)
        return self.linear_proj(self.core_attention(query, key, value, self.mask))


class MLP(torch.nn.Module):
    def __init__(self, config, ffn_hidden_size):
        super().__init__()
        self.gated = config.swiglu
        width = (2 if self.gated else 1) * ffn_hidden_size
        self.linear_fc1 = ColumnParallelLinear(config.hidden_size, width)
        self.linear_fc2 = RowParallelLinear(ffn_hidden_size, config.hidden_size)

    def forward(self, hidden_states):
        inner = self.linear_fc1(hidden_states)
        if self.gated:
            left, right = torch.chunk(inner, 2, dim=-1)
            inner = functional.silu(left) * right
        else:
            inner = functional.gelu(inner)
        return self.linear_fc2(inner)


class TransformerLayer(torch.nn.Module):
    def __init__(self, config, layer_number):
        super().__init__()
        self.layer_number = layer_number
        self.input_layernorm = torch.nn.LayerNorm(config.hidden_size)
        self.self_attention = SelfAttention(config)
        self.pre_mlp_layernorm = torch.nn.LayerNorm(config.hidden_size)
        if config.num_experts:
            self.mlp = MoELayer(config, MLP, layer_number)
        else:
            self.mlp = MLP(config, config.ffn_hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        attention = self.self_attention(self.input_layernorm(hidden_states))
        hidden_states = hidden_states + attention
        return hidden_states + self.mlp(self.pre_mlp_layernorm(hidden_states)), None
