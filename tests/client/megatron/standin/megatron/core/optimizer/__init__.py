from .optimizer import FP32Optimizer


def get_megatron_optimizer(config, model_chunks):
    parameters = [p for chunk in model_chunks for p in chunk.parameters()]
    return FP32Optimizer(parameters, config)
