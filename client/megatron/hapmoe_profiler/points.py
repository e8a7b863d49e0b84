"""Where the profiler looks into Megatron-LM: names that have been stable over its releases.

Each point stands for itself. One that a release does not have is skipped, and only what it measures
is missing. `alternatives` of one `what` are older and newer names of the same thing.
"""

from __future__ import annotations

import dataclasses

STEP = "step"  # One training step.
SPAN = "span"  # A phase, timed from call to return.
MODULE = "module"  # A forward pass through a module, and the backward pass through it.
ROUTING = "routing"  # A router's decision.


@dataclasses.dataclass(frozen=True)
class Point:
    """A function of a module, or a method of a class in it."""

    module: str
    attribute: str  # "function" or "Class.method".
    role: str
    what: str  # The phase or the module that it measures.


def _methods(module: str, owner: str, names: str, what: str, role: str = SPAN) -> list[Point]:
    return [Point(module, f"{owner}.{name}", role, what) for name in names.split()]


_SCHEDULES = "megatron.core.pipeline_parallel.schedules"
_P2P = "megatron.core.pipeline_parallel.p2p_communication"
_OPTIMIZER = "megatron.core.optimizer.optimizer"
_MOE = "megatron.core.transformer.moe."
_DISPATCHERS = (
    "MoEAllGatherTokenDispatcher",
    "MoEAlltoAllTokenDispatcher",
    "MoEFlexTokenDispatcher",
)
_TRANSFERS = (
    "recv_forward recv_backward send_forward send_backward send_forward_recv_backward "
    "send_backward_recv_forward send_forward_recv_forward send_backward_recv_backward "
    "send_forward_backward_recv_forward_backward"
)

POINTS: tuple[Point, ...] = (
    Point("megatron.training.training", "train_step", STEP, "iteration"),
    Point("megatron.bridge.training.train", "train_step", STEP, "iteration"),
    Point(_SCHEDULES, "forward_step", SPAN, "forward"),
    Point(_SCHEDULES, "backward_step", SPAN, "backward"),
    *_methods(_P2P, "P2PCommunicator", _TRANSFERS, "pipeline"),
    # Functions of the module before there was a class.
    *(Point(_P2P, name, SPAN, "pipeline") for name in _TRANSFERS.split()),
    Point(
        "megatron.core.distributed.finalize_model_grads",
        "finalize_model_grads",
        SPAN,
        "gradient_sync",
    ),
    *_methods(
        "megatron.core.distributed.distributed_data_parallel",
        "DistributedDataParallel",
        "start_param_sync",
        "parameter_gather",
    ),
    *_methods(_OPTIMIZER, "MixedPrecisionOptimizer", "step", "optimizer"),
    *_methods(_OPTIMIZER, "FP32Optimizer", "step", "optimizer"),
    *_methods(_OPTIMIZER, "ChainedOptimizer", "step", "optimizer"),
    Point(
        "megatron.core.transformer.transformer_layer", "TransformerLayer.forward", MODULE, "layer"
    ),
    Point(
        "megatron.core.transformer.dot_product_attention",
        "DotProductAttention.forward",
        MODULE,
        "core_attention",
    ),
    Point(
        "megatron.core.extensions.transformer_engine",
        "TEDotProductAttention.forward",
        MODULE,
        "core_attention",
    ),
    Point("megatron.core.tensor_parallel.layers", "ColumnParallelLinear.forward", MODULE, "linear"),
    Point("megatron.core.tensor_parallel.layers", "RowParallelLinear.forward", MODULE, "linear"),
    Point("megatron.core.extensions.transformer_engine", "TELinear.forward", MODULE, "linear"),
    Point(
        "megatron.core.extensions.transformer_engine",
        "TELayerNormColumnParallelLinear.forward",
        MODULE,
        "linear",
    ),
    Point(_MOE + "shared_experts", "SharedExpertMLP.forward", MODULE, "shared_experts"),
    Point(_MOE + "router", "TopKRouter.forward", ROUTING, "router"),
    Point(_MOE + "experts", "GroupedMLP.forward", MODULE, "experts"),
    Point(_MOE + "experts", "TEGroupedMLP.forward", MODULE, "experts"),
    Point(_MOE + "experts", "SequentialMLP.forward", MODULE, "experts"),
    *(
        point
        for dispatcher in _DISPATCHERS
        for names, what in (
            # The second name of each until Megatron-LM 0.12.
            ("token_dispatch token_permutation", "dispatch"),
            ("token_combine token_unpermutation", "combine"),
        )
        for point in _methods(_MOE + "token_dispatcher", dispatcher, names, what, MODULE)
    ),
)
