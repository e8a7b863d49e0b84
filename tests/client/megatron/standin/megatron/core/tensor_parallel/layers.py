"""Linear layers, with the products that Megatron-LM's have."""

import torch


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight):
        ctx.save_for_backward(input, weight)
        return torch.matmul(input, weight.t())

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        grad_input = grad_output.matmul(weight)
        grad = grad_output.reshape(-1, grad_output.shape[-1])
        return grad_input, grad.t().matmul(input.reshape(-1, input.shape[-1]))


class ColumnParallelLinear(torch.nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(output_size, input_size) * 0.02)

    def forward(self, input_, weight=None, runtime_gather_output=None):
        return _Linear.apply(input_, self.weight if weight is None else weight)


class RowParallelLinear(torch.nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(output_size, input_size) * 0.02)

    def forward(self, input_):
        return _Linear.apply(input_, self.weight)
