"""Adam in 32 bit."""

import torch


class MixedPrecisionOptimizer:
    def step(self):
        raise NotImplementedError


class FP32Optimizer:
    def __init__(self, parameters, config):
        self.parameters = parameters
        self.optimizer = torch.optim.Adam(parameters, lr=config.lr, foreach=False)

    @torch.no_grad()
    def step(self):
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in self.parameters))
        self.optimizer.step()
        return True, norm, None


class ChainedOptimizer:
    def step(self):
        raise NotImplementedError
