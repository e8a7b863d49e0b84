"""What follows the last backward pass."""


def finalize_model_grads(model, num_tokens=None):
    for chunk in model:
        chunk.finish_grad_sync()
