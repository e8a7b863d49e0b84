"""Trains, and prints one line for each iteration: rank, number, loss, gradient norm, seconds, and
seconds of processor time."""

import os
import time

import torch

torch.set_num_threads(1)

from megatron.core.tensor_parallel.cross_entropy import vocab_parallel_cross_entropy
from megatron.training import pretrain

_clock = [time.perf_counter(), time.process_time()]


def forward_step(data_iterator, model, input_tensor):
    text = next(data_iterator)
    output = model(text[:, :-1], input_tensor)
    if not model.module.last:
        return output, None
    labels = text[:, 1:].transpose(0, 1).contiguous()
    return output, lambda logits: vocab_parallel_cross_entropy(logits, labels).mean()


def report(iteration, loss, norm):
    now = [time.perf_counter(), time.process_time()]
    seconds = [f"{a - b:.6f}" for a, b in zip(now, _clock)]
    _clock[:] = now
    rank = os.environ.get("RANK", "0")
    # All bits of both numbers.
    print(rank, iteration, loss.item().hex(), norm.item().hex(), *seconds, flush=True)


if __name__ == "__main__":
    pretrain(forward_step, report)
