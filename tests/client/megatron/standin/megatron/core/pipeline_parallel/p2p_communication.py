"""Transfers between stages."""

import torch
import torch.distributed as dist

_global_rank = getattr(dist, "get_global_rank", None) or dist.distributed_c10d.get_global_rank


class P2PCommunicator:
    def __init__(self, pp_group, config):
        self.group = pp_group
        self.rank = dist.get_rank(pp_group)
        ranks = range(dist.get_world_size(pp_group))
        self.members = [_global_rank(pp_group, r) for r in ranks]
        self.shape = (config.seq_length, config.micro_batch_size, config.hidden_size)

    @property
    def is_first(self):
        return self.rank == 0

    @property
    def is_last(self):
        return self.rank == len(self.members) - 1

    def _run(self, send=(), receive=()):
        """Sends and receives at once: (tensor, stage) pairs and stages."""
        requests = [dist.isend(t.contiguous(), self.members[s], self.group) for t, s in send]
        received = []
        for stage in receive:
            tensor = torch.empty(self.shape)
            requests.append(dist.irecv(tensor, self.members[stage], self.group))
            received.append(tensor)
        for request in requests:
            request.wait()
        return received[0].requires_grad_() if received else None

    def recv_forward(self):
        return None if self.is_first else self._run(receive=[self.rank - 1])

    def recv_backward(self):
        return None if self.is_last else self._run(receive=[self.rank + 1])

    def send_forward(self, output):
        if not self.is_last:
            self._run(send=[(output.detach(), self.rank + 1)])

    def send_backward(self, gradient):
        if not self.is_first:
            self._run(send=[(gradient, self.rank - 1)])

    def send_forward_recv_backward(self, output):
        if self.is_last:
            return None
        return self._run([(output.detach(), self.rank + 1)], [self.rank + 1])

    def send_backward_recv_forward(self, gradient):
        if self.is_first:
            return None
        return self._run([(gradient, self.rank - 1)], [self.rank - 1])
