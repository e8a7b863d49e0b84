"""Process groups: ranks in order of data, then pipeline parallelism; no tensor parallelism."""

import torch.distributed as dist

_GROUPS = {}
_SIZES = {}


def initialize_model_parallel(
    tensor_model_parallel_size=1, pipeline_model_parallel_size=1, expert_model_parallel_size=1
):
    assert tensor_model_parallel_size == 1
    world = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if dist.is_initialized() else 0
    pipeline = pipeline_model_parallel_size
    data = world // pipeline
    expert = expert_model_parallel_size
    lists = {
        "data": [range(p * data, (p + 1) * data) for p in range(pipeline)],
        "pipeline": [range(d, world, data) for d in range(data)],
        "expert": [range(i, i + expert) for i in range(0, world, expert)],
        "expert_data": [
            range(p * data + e, (p + 1) * data, expert)
            for p in range(pipeline)
            for e in range(expert)
        ],
    }
    for name, members in lists.items():
        for ranks in members:
            group = dist.new_group(list(ranks)) if dist.is_initialized() else None
            if rank in ranks:
                _GROUPS[name] = group
                _SIZES[name] = (list(ranks).index(rank), len(ranks))


def get_data_parallel_group(with_context_parallel=False, partial_data_parallel=False):
    return _GROUPS["data"]


def get_pipeline_model_parallel_group(check_initialized=True):
    return _GROUPS["pipeline"]


def get_expert_model_parallel_group(check_initialized=True):
    return _GROUPS["expert"]


def get_expert_data_parallel_group(check_initialized=True, partial_expert_data_parallel=False):
    return _GROUPS["expert_data"]


def get_data_parallel_rank():
    return _SIZES["data"][0]


def get_data_parallel_world_size():
    return _SIZES["data"][1]


def get_pipeline_model_parallel_rank():
    return _SIZES["pipeline"][0]


def get_pipeline_model_parallel_world_size():
    return _SIZES["pipeline"][1]


def get_expert_model_parallel_rank():
    return _SIZES["expert"][0]


def get_expert_model_parallel_world_size():
    return _SIZES["expert"][1]


def get_expert_data_parallel_world_size():
    return _SIZES["expert_data"][1]
