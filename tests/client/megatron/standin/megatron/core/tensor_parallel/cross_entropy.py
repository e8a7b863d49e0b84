"""The loss over the vocabulary, pass by pass as Megatron-LM's VocabParallelCrossEntropy."""

import torch


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        logits = logits.float()
        logits = logits - logits.max(dim=-1)[0].unsqueeze(-1)
        predicted = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        exponentials = logits.exp_()
        total = exponentials.sum(dim=-1)
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), target)
        return total.log() - predicted

    @staticmethod
    def backward(ctx, grad_output):
        softmax, target = ctx.saved_tensors
        grad = softmax
        grad.scatter_add_(
            -1, target.unsqueeze(-1), -torch.ones_like(target, dtype=grad.dtype).unsqueeze(-1)
        )
        grad.mul_(grad_output.unsqueeze(-1))
        return grad, None


def vocab_parallel_cross_entropy(logits, target):
    return _CrossEntropy.apply(logits, target)
