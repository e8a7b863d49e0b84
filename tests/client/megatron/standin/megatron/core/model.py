"""A GPT, or the part of it that a pipeline stage holds."""

import torch

from megatron.core import parallel_state
from megatron.core.tensor_parallel.layers import ColumnParallelLinear
from megatron.core.transformer.transformer_layer import TransformerLayer


class GPTModel(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        stages = parallel_state.get_pipeline_model_parallel_world_size()
        stage = parallel_state.get_pipeline_model_parallel_rank()
        count = config.num_layers // stages
        if stage == 0:
            self.word_embeddings = torch.nn.Embedding(config.padded_vocab_size, config.hidden_size)
            self.position_embeddings = torch.nn.Embedding(
                config.max_position_embeddings, config.hidden_size
            )
        self.layers = torch.nn.ModuleList(
            TransformerLayer(config, stage * count + i + 1) for i in range(count)
        )
        if stage == stages - 1:
            self.final_layernorm = torch.nn.LayerNorm(config.hidden_size)
            self.output_layer = ColumnParallelLinear(config.hidden_size, config.padded_vocab_size)
        self.first, self.last = stage == 0, stage == stages - 1

    def forward(self, tokens, hidden_states=None):
        """[batch, sequence] tokens or what the stage before sent; logits [s, b, vocabulary] or what
        the next stage takes."""
        if self.first:
            positions = torch.arange(tokens.shape[1])
            embedded = self.word_embeddings(tokens) + self.position_embeddings(positions)
            hidden_states = embedded.transpose(0, 1).contiguous()
        for layer in self.layers:
            hidden_states, _ = layer(hidden_states, attention_mask=None)
        if not self.last:
            return hidden_states
        return self.output_layer(self.final_layernorm(hidden_states))
