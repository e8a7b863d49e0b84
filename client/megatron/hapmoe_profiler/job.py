"""What the job trains and how, read from its arguments while it runs."""

from __future__ import annotations

import sys
from typing import Any, Optional

from . import log

# Arguments of Megatron-LM that shapes and sizes follow from. What a release does not have is None.
_SIZES = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "seq_length",
    "micro_batch_size",
    "global_batch_size",
    "padded_vocab_size",
    "num_experts",
    "moe_ffn_hidden_size",
    "moe_router_topk",
    "moe_shared_expert_intermediate_size",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
)
_FLAGS = (
    "swiglu",
    "group_query_attention",
    "bf16",
    "fp16",
    "fp8",
    "sequence_parallel",
    "use_distributed_optimizer",
    "multi_latent_attention",
    "qk_layernorm",
    "attention_output_gate",
    "cross_entropy_loss_fusion",
    "recompute_granularity",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "optimizer",
    "normalization",
    "moe_token_dispatcher_type",
    "moe_expert_capacity_factor",
)
# Without these nothing has a shape.
_NEEDED = ("hidden_size", "num_attention_heads", "seq_length", "micro_batch_size", "num_layers")


def _arguments() -> Any:
    """The job's argparse namespace, where its framework keeps one."""
    for name in ("megatron.training.global_vars", "megatron.training", "megatron.global_vars"):
        module = sys.modules.get(name)
        get = getattr(module, "get_args", None)
        if get is None:
            continue
        try:
            return get()
        except Exception:  # Not initialised.
            continue
    return None


def _config(args: tuple, kwargs: dict) -> Any:
    """The TransformerConfig among the arguments of a training step."""
    for value in (*args, *kwargs.values()):
        if hasattr(value, "hidden_size") and hasattr(value, "num_attention_heads"):
            return value
    for chunk in _chunks(args, kwargs):
        module = chunk
        for _ in range(4):  # Wrappers of mixed precision and data parallelism.
            config = getattr(module, "config", None)
            if hasattr(config, "hidden_size"):
                return config
            module = getattr(module, "module", None)
    return None


def _bridge_configs(args: tuple, kwargs: dict) -> list[Any]:
    """What Megatron-Bridge keeps in the configuration of its global state."""
    for value in (*args, *kwargs.values()):
        configuration = getattr(value, "cfg", None)
        if hasattr(configuration, "train") and hasattr(configuration, "model"):
            return [configuration.train, configuration.model]
    return []


def _chunks(args: tuple, kwargs: dict) -> list[Any]:
    """The model chunks among the arguments of a training step."""
    for value in (kwargs.get("model"), *args):
        if isinstance(value, (list, tuple)) and value and hasattr(value[0], "parameters"):
            return list(value)
        if hasattr(value, "named_parameters"):
            return [value]
    return []


def _first(sources: list[Any], name: str) -> Any:
    for source in sources:
        value = getattr(source, name, None)
        if value is not None:
            return value
    return None


def describe(args: tuple, kwargs: dict) -> dict[str, Any]:
    """Sizes and switches of the job by their Megatron-LM names, and the parameters of this rank:
    {"dense_parameters", "expert_parameters", ...}. Empty where sizes are missing that all shapes
    depend on, which is logged."""
    candidates = (_arguments(), *_bridge_configs(args, kwargs), _config(args, kwargs))
    sources = [source for source in candidates if source is not None]
    job: dict[str, Any] = {}
    for name in _SIZES:
        value = _first(sources, name)
        job[name] = int(value) if isinstance(value, (int, float)) else None
    for name in _FLAGS:
        value = _first(sources, name)
        job[name] = value if isinstance(value, (bool, str, int)) or value is None else str(value)
    if job["num_experts"] is None:
        job["num_experts"] = _int(_first(sources, "num_moe_experts"))
    if job["swiglu"] is None:
        job["swiglu"] = bool(_first(sources, "gated_linear_unit"))
    if job["padded_vocab_size"] is None:
        job["padded_vocab_size"] = _int(_first(sources, "vocab_size"))
    missing = [name for name in _NEEDED if not job[name]]
    if missing:
        log.once(f"the job does not say its {', '.join(missing)}: only its iterations are recorded")
        return {}
    job["dense_parameters"], job["expert_parameters"] = _parameters(_chunks(args, kwargs))
    return job


def _int(value: Any) -> Optional[int]:
    return int(value) if isinstance(value, (int, float)) else None


def _parameters(chunks: list[Any]) -> tuple[int, int]:
    """Parameters of this rank that all data-parallel ranks share, and those of its experts, which
    Megatron-LM marks by `allreduce = False`."""
    dense = experts = 0
    for chunk in chunks:
        for parameter in chunk.parameters():
            if not parameter.requires_grad:
                continue
            if getattr(parameter, "allreduce", True):
                dense += parameter.numel()
            else:
                experts += parameter.numel()
    return dense, experts


def precision(job: dict[str, Any]) -> str:
    """ "bf16", "fp16" or "fp32"."""
    if job.get("bf16"):
        return "bf16"
    return "fp16" if job.get("fp16") else "fp32"


def degree(job: dict[str, Any], name: str) -> int:
    """A parallel degree; 1 where the job does not say."""
    return max(1, int(job.get(name) or 1))


def groups() -> dict[str, Any]:
    """The job's process groups of more than one rank, by kind of parallelism."""
    state = sys.modules.get("megatron.core.parallel_state")
    import torch.distributed as dist

    if state is None or not dist.is_available() or not dist.is_initialized():
        return {}
    getters = {
        "tensor": ("get_tensor_model_parallel_group", {}),
        "data": ("get_data_parallel_group", {"with_context_parallel": True}),
        "expert": ("get_expert_model_parallel_group", {}),
        "expert_data": ("get_expert_data_parallel_group", {}),
        "pipeline": ("get_pipeline_model_parallel_group", {}),
    }
    found: dict[str, Any] = {}
    for kind, (name, options) in getters.items():
        get = getattr(state, name, None)
        if get is None:
            continue
        try:
            group = get(**options)
        except Exception:  # Not there, or called otherwise in this release.
            continue
        if group is not None and dist.get_world_size(group) > 1:
            found[kind] = group
    return found


def stage() -> int:
    """This rank's place in the pipeline; 0 where the job does not say."""
    state = sys.modules.get("megatron.core.parallel_state")
    try:
        return int(state.get_pipeline_model_parallel_rank()) if state is not None else 0
    except Exception:  # Not initialised.
        return 0
