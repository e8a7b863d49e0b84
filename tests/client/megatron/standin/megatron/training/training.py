"""The training loop."""

import itertools
import os

import torch
import torch.distributed as dist

from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, finalize_model_grads
from megatron.core.model import GPTModel
from megatron.core.optimizer import get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func

from .arguments import parse_args
from .global_vars import get_args, set_args


def train_step(
    forward_step_func,
    data_iterator,
    model,
    optimizer,
    opt_param_scheduler,
    config,
    forward_backward_func,
    iteration=None,
):
    args = get_args()
    for chunk in model:
        chunk.zero_grad_buffer()
    losses = forward_backward_func(
        forward_step_func=forward_step_func,
        data_iterator=data_iterator,
        model=model,
        num_microbatches=args.num_microbatches,
        config=config,
    )
    update_successful, grad_norm, _ = optimizer.step()
    loss = torch.stack(losses).mean() if losses else torch.zeros(())
    return {"lm loss": loss}, not update_successful, grad_norm


def train(forward_step_func, model, optimizer, config, data_iterator, report):
    args = get_args()
    forward_backward_func = get_forward_backward_func()
    for iteration in range(args.train_iters):
        losses, _, grad_norm = train_step(
            forward_step_func,
            data_iterator,
            model,
            optimizer,
            None,
            config,
            forward_backward_func,
            iteration=iteration,
        )
        report(iteration, losses["lm loss"], grad_norm)


def batches(args, rank):
    """Endless batches of tokens that a rank of data parallelism draws for itself."""
    generator = torch.Generator().manual_seed(args.seed + rank)
    for _ in itertools.count():
        # Repeated pieces, so that there is something to learn.
        size = (args.micro_batch_size, args.seq_length // 4 + 1)
        piece = torch.randint(args.vocab_size, size, generator=generator)
        yield piece.repeat(1, 5)[:, : args.seq_length + 1]


def pretrain(forward_step_func, report, argv=None):
    args = parse_args(argv)
    set_args(args)
    torch.manual_seed(args.seed)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(
        args.tensor_model_parallel_size,
        args.pipeline_model_parallel_size,
        expert_model_parallel_size=args.expert_model_parallel_size,
    )
    data_parallel = parallel_state.get_data_parallel_world_size()
    args.num_microbatches = args.global_batch_size // (args.micro_batch_size * data_parallel)
    model = [DistributedDataParallel(args, GPTModel(args))]
    args.finalize_model_grads_func = finalize_model_grads
    optimizer = get_megatron_optimizer(args, model)
    iterator = batches(args, parallel_state.get_data_parallel_rank())
    train(forward_step_func, model, optimizer, args, iterator, report)
    if dist.is_initialized():
        dist.destroy_process_group()
