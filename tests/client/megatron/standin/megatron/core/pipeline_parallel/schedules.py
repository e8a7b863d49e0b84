"""Schedules of one iteration: without a pipeline, and 1F1B."""

import torch

from megatron.core import parallel_state

from .p2p_communication import P2PCommunicator


def get_forward_backward_func():
    if parallel_state.get_pipeline_model_parallel_world_size() > 1:
        return forward_backward_pipelining_without_interleaving
    return forward_backward_no_pipelining


def forward_step(forward_step_func, data_iterator, model, num_microbatches, input_tensor, losses):
    output, loss_func = forward_step_func(data_iterator, model, input_tensor)
    if loss_func is not None:
        loss = loss_func(output)
        losses.append(loss.detach())
        output = loss / num_microbatches
    return output


def backward_step(input_tensor, output_tensor, output_tensor_grad, config):
    torch.autograd.backward(output_tensor, grad_tensors=output_tensor_grad)
    return None if input_tensor is None else input_tensor.grad


def forward_backward_no_pipelining(
    forward_step_func, data_iterator, model, num_microbatches, config
):
    losses = []
    for _ in range(num_microbatches):
        output = forward_step(
            forward_step_func, data_iterator, model[0], num_microbatches, None, losses
        )
        backward_step(None, output, None, config)
    config.finalize_model_grads_func(model)
    return losses


def forward_backward_pipelining_without_interleaving(
    forward_step_func, data_iterator, model, num_microbatches, config
):
    group = parallel_state.get_pipeline_model_parallel_group()
    communicator = P2PCommunicator(group, config)
    stages = parallel_state.get_pipeline_model_parallel_world_size()
    stage = parallel_state.get_pipeline_model_parallel_rank()
    warmup = min(stages - stage - 1, num_microbatches)
    losses, inputs, outputs = [], [], []

    def forward(input_tensor):
        output = forward_step(
            forward_step_func, data_iterator, model[0], num_microbatches, input_tensor, losses
        )
        inputs.append(input_tensor)
        outputs.append(output)
        return output

    for _ in range(warmup):
        communicator.send_forward(forward(communicator.recv_forward()))
    steady = num_microbatches - warmup
    input_tensor = communicator.recv_forward() if steady > 0 else None
    for i in range(steady):
        gradient = communicator.send_forward_recv_backward(forward(input_tensor))
        input_gradient = backward_step(inputs.pop(0), outputs.pop(0), gradient, config)
        if i == steady - 1:
            communicator.send_backward(input_gradient)
        else:
            input_tensor = communicator.send_backward_recv_forward(input_gradient)
    for _ in range(warmup):
        gradient = communicator.recv_backward()
        communicator.send_backward(backward_step(inputs.pop(0), outputs.pop(0), gradient, config))
    config.finalize_model_grads_func(model)
    return losses
