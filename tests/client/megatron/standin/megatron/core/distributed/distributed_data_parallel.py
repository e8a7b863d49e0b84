"""Gradients of all parameters in one buffer for each group that sums them."""

import torch
import torch.distributed as dist

from megatron.core import parallel_state


class DistributedDataParallel(torch.nn.Module):
    def __init__(self, config, module):
        super().__init__()
        self.config = config
        self.module = module
        self.buffers_by_kind = {}
        for kind in ("dense", "expert"):
            parameters = [
                p for p in module.parameters() if getattr(p, "allreduce", True) == (kind == "dense")
            ]
            buffer = torch.zeros(sum(p.numel() for p in parameters))
            self.buffers_by_kind[kind] = buffer
            begin = 0
            for parameter in parameters:
                view = buffer[begin : begin + parameter.numel()].view(parameter.shape)
                parameter.main_grad = parameter.grad = view
                begin += parameter.numel()

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def zero_grad_buffer(self):
        for buffer in self.buffers_by_kind.values():
            buffer.zero_()

    def finish_grad_sync(self):
        groups = {
            "dense": (
                parallel_state.get_data_parallel_group(),
                parallel_state.get_data_parallel_world_size(),
            ),
            "expert": (
                parallel_state.get_expert_data_parallel_group(),
                parallel_state.get_expert_data_parallel_world_size(),
            ),
        }
        data = parallel_state.get_data_parallel_world_size()
        for kind, buffer in self.buffers_by_kind.items():
            group, size = groups[kind]
            if size > 1 and buffer.numel() > 0:
                dist.all_reduce(buffer, group=group)
            if data > 1:
                buffer.div_(data)
