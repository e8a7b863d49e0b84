"""The end of a recording: benchmarks, this rank's file, and the joining of all ranks' files."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from . import __version__, bench, collectives, files, log
from .device import Device
from .job import degree, groups, precision, stage
from .merge import merge, rank_file, rank_files
from .recorder import Recorder
from .settings import Settings

_SHARE_OF_COLLECTIVES = 0.4  # Of the time for benchmarks.
_ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


class Place(NamedTuple):
    """Where this process stands in the job. Read while the job runs: at its end it is forgotten."""

    rank: int
    ranks: int
    local_ranks: int
    stage: int


def begin(settings: Settings) -> Place:
    """Called before the first iteration is recorded. Rank 0 clears the folder of the files of ranks
    that an earlier job left; no rank writes its own before all have gone on."""
    rank, ranks = collectives.world() or (0, 1)
    if rank == 0:
        for path in rank_files(settings.directory):
            os.unlink(path)
    return Place(rank, ranks, collectives.local_ranks(), stage())


def finish(settings: Settings, recorder: Recorder, place: Place, job: dict[str, Any]) -> None:
    """Benchmarks what the job runs, writes, and joins the ranks' files when it is the last."""
    device = recorder.device
    measured: dict[str, Any] = {}
    began = time.monotonic()
    if settings.bench_seconds > 0 and job:
        measured["operations"] = _operations(settings, device, job)
        measured["collectives"] = _collectives(settings, device, job)
        device.release()
    measured["bench_seconds"] = time.monotonic() - began
    write_rank(settings, recorder, place, job, measured)


def write_rank(
    settings: Settings,
    recorder: Recorder,
    place: Place,
    job: dict[str, Any],
    measured: dict[str, Any],
) -> None:
    """Writes this rank's file. Whoever finds all ranks' files there joins them."""
    content = {
        "version": __version__,
        **place._asdict(),
        "settings": {"accelerator": settings.accelerator, "plan_id": settings.plan_id},
        "device": recorder.device.facts(),
        "job": job,
        "iterations": recorder.iterations,
        **measured,
    }
    name = rank_file(place.rank)
    files.write_json(os.path.join(settings.directory, name), content, indent=None)
    log.logger().info("recorded %d iterations; %s written", len(recorder.iterations), name)
    if len(rank_files(settings.directory)) == place.ranks:
        for path in merge(settings.directory):
            log.logger().info("wrote %s", path)


def _operations(settings: Settings, device: Device, job: dict[str, Any]) -> dict[str, Any]:
    seconds = settings.bench_seconds * (1 - _SHARE_OF_COLLECTIVES)
    try:
        return bench.run(device, job, seconds)
    except Exception as error:  # Other ranks go on to the collectives.
        log.once(f"operations are not measured: {type(error).__name__}: {error}")
        return {}


def _collectives(settings: Settings, device: Device, job: dict[str, Any]) -> list[dict[str, Any]]:
    if collectives.world() is None:
        return []
    try:
        return collectives.measure(
            device, groups(), message_sizes(job), settings.bench_seconds * _SHARE_OF_COLLECTIVES
        )
    except Exception as error:
        log.once(f"collectives are not measured: {type(error).__name__}: {error}")
        return []


def message_sizes(job: dict[str, Any]) -> dict[str, int]:
    """Bytes of the largest message of each kind of group in an iteration."""
    element = _ELEMENT_BYTES[precision(job)]
    tensor = degree(job, "tensor_model_parallel_size")
    tokens = int(job["seq_length"]) * int(job["micro_batch_size"])
    tokens //= degree(job, "context_parallel_size")
    hidden = int(job["hidden_size"])
    between = tokens // tensor if job["sequence_parallel"] else tokens
    return {
        "tensor": tokens * hidden * element,
        "pipeline": between * hidden * element,
        "expert": int(job["moe_router_topk"] or 1) * (tokens // tensor) * hidden * element,
        "data": 4 * int(job["dense_parameters"]),
        "expert_data": 4 * int(job["expert_parameters"]),
    }
