"""Times of collectives on the job's own process groups.

A rank that entered a collective alone would stop the job for good. So all ranks first agree, over
the key-value store of torch.distributed and not by a collective: rank 0 goes ahead only when every
rank has said that it is ready and holds its buffers. A rank that fails or comes late withdraws, and
then nobody measures.
"""

from __future__ import annotations

import datetime
import os
import statistics
import time
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import log
from .device import Device

_PATIENCE = 30.0  # Seconds that rank 0 waits for the others.
_REPEATS = 5
_LEAST_BYTES = 4096
_MOST_BYTES = 2**28
_STEP = 4  # Between the sizes of a curve.
_PRIMITIVES = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL", "SEND_RECEIVE")


def agree() -> bool:
    """Whether all ranks of the job are here and ready. All get the same answer: a rank's claim on
    its own seat is one atomic addition, which either rank 0 (which keeps it) or the rank itself
    (which withdraws) makes first."""
    store, patience = _store(), _PATIENCE
    rank, world = dist.get_rank(), dist.get_world_size()
    store.set(f"ready/{rank}", "1")
    if rank == 0:
        end = time.monotonic() + patience
        everybody = all(_wait(store, f"ready/{r}", end - time.monotonic()) for r in range(1, world))
        kept = [store.add(f"seat/{r}", 1) == 1 for r in range(1, world)] if everybody else []
        answer = everybody and all(kept)
        store.set("answer", "go" if answer else "stay")
        return answer
    if not _wait(store, "answer", 2 * patience):
        if store.add(f"seat/{rank}", 1) == 1:
            return False  # Rank 0 cannot go without this seat.
        # Rank 0 holds the seat, and is about to answer.
        if not _wait(store, "answer", 20 * patience):
            return False
    return store.get("answer") == b"go"


def _store() -> Any:
    from torch.distributed import distributed_c10d

    store = distributed_c10d._get_default_store()
    return dist.PrefixStore("hapmoe_profiler", store)


def _wait(store: Any, key: str, seconds: float) -> bool:
    try:
        store.wait([key], datetime.timedelta(seconds=max(0.05, seconds)))
        return True
    except Exception:  # The kind differs from release to release; all of them mean "not there".
        return False


class _Curve:
    """One collective on one group, with its buffers."""

    def __init__(self, primitive: str, group: Any, most_bytes: int, device: torch.device) -> None:
        self.primitive = primitive
        self.group = group
        self.ranks = dist.get_world_size(group)
        self.members = [_global_rank(group, index) for index in range(self.ranks)]
        unit = self.ranks * 4
        self.sizes = []
        size = _LEAST_BYTES
        while size < most_bytes:
            self.sizes.append(-(-size // unit) * unit)
            size *= _STEP
        self.sizes.append(-(-most_bytes // unit) * unit)
        count = self.sizes[-1] // 4
        self.whole = torch.zeros(count, device=device)
        self.other = torch.zeros(count, device=device)

    def run(self, size: int) -> None:
        """Once, with `size` bytes as the message CollectiveCurve counts them."""
        count = size // 4
        whole, part = self.whole[:count], self.other[: count // self.ranks]
        if self.primitive == "ALL_REDUCE":
            dist.all_reduce(whole, group=self.group)
        elif self.primitive == "ALL_GATHER":
            _all_gather(whole, part, self.group)
        elif self.primitive == "REDUCE_SCATTER":
            _reduce_scatter(part, whole, self.group)
        elif self.primitive == "ALL_TO_ALL":
            dist.all_to_all_single(self.other[:count], whole, group=self.group)
        else:
            me = self.members.index(dist.get_rank())
            if me == 0:
                dist.send(whole, self.members[1], group=self.group)
                dist.recv(whole, self.members[1], group=self.group)
            elif me == 1:
                dist.recv(whole, self.members[0], group=self.group)
                dist.send(whole, self.members[0], group=self.group)


def _all_gather(whole: torch.Tensor, part: torch.Tensor, group: Any) -> None:
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    gather(whole, part, group=group)


def _reduce_scatter(part: torch.Tensor, whole: torch.Tensor, group: Any) -> None:
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    scatter(part, whole, group=group)


def _global_rank(group: Any, index: int) -> int:
    find = getattr(dist, "get_global_rank", None)
    if find is None:
        find = dist.distributed_c10d._get_global_rank
    return int(find(group, index))


def measure(
    device: Device, groups: dict[str, Any], sizes: dict[str, int], seconds: float
) -> list[dict[str, Any]]:
    """[{"primitive", "ranks", "members", "kind", "bytes": [...], "seconds": [...]}] of the job's
    groups. `sizes` has the largest message of each kind of group, in bytes. Every rank of the job
    must call it. Empty where the ranks do not agree."""
    if not groups and dist.get_world_size() == 1:
        return []
    curves: list[tuple[str, _Curve]] = []
    ready = True
    try:
        curves = _curves(device, groups, sizes)
    except Exception as error:
        log.once(f"no collective is measured: {type(error).__name__}: {error}")
        ready = False
    if not ready or not agree():
        log.once("the ranks did not agree to measure collectives")
        return []
    end = time.monotonic() + seconds
    found = []
    # The groups differ from rank to rank, their kinds do not: all walk through the same list.
    for index, (kind, curve) in enumerate(curves):
        if _anybody_late(device, end):
            log.once("the time for benchmarks was up before all collectives were measured")
            break
        measured = _measure_one(device, curve)
        if measured:
            found.append(
                {
                    "primitive": curve.primitive,
                    "kind": kind,
                    "ranks": 2 if curve.primitive == "SEND_RECEIVE" else curve.ranks,
                    "members": curve.members,
                    "bytes": [size for size, _ in measured],
                    "seconds": [time for _, time in measured],
                }
            )
    return found


def _curves(
    device: Device, groups: dict[str, Any], sizes: dict[str, int]
) -> list[tuple[str, _Curve]]:
    wanted = {
        "tensor": ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"),
        "data": ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"),
        "expert": ("ALL_TO_ALL",),
        "expert_data": ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"),
        "pipeline": ("SEND_RECEIVE",),
    }
    found: list[tuple[str, _Curve]] = []
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for kind, primitives in wanted.items():
        group = groups.get(kind)
        if group is None:
            continue
        # The same on all ranks of a group: what is free is not, and only decides whether to measure.
        most = max(_LEAST_BYTES, min(_MOST_BYTES, sizes.get(kind, _LEAST_BYTES)))
        if 2 * most * len(primitives) > device.free_bytes():
            raise MemoryError(f"messages of {most} bytes need more memory than is free")
        for primitive in primitives:
            curve = _Curve(primitive, group, most, device.torch_device())
            key = (primitive, tuple(curve.members))
            if key not in seen:
                seen.add(key)
                found.append((kind, curve))
    return found


def _anybody_late(device: Device, end: float) -> bool:
    late = torch.tensor([1.0 if time.monotonic() >= end else 0.0], device=device.torch_device())
    dist.all_reduce(late, op=dist.ReduceOp.MAX)
    return bool(late.item() > 0)


def _measure_one(device: Device, curve: _Curve) -> list[tuple[int, float]]:
    """Median times by size. Empty where the backend does not know the collective, which it says
    before it communicates, and on all ranks alike."""
    found = []
    try:
        for size in curve.sizes:
            for _ in range(2):
                curve.run(size)
            times = []
            for _ in range(_REPEATS):
                device.synchronize()
                dist.barrier(group=curve.group)
                device.synchronize()
                begin = time.perf_counter()
                curve.run(size)
                device.synchronize()
                times.append(time.perf_counter() - begin)
            middle = statistics.median(times)
            found.append((size, middle / 2 if curve.primitive == "SEND_RECEIVE" else middle))
    except RuntimeError as error:
        log.once(f"{curve.primitive} is not measured: {error}")
    return found


def local_ranks() -> int:
    """Ranks of this node."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))


def world() -> Optional[tuple[int, int]]:
    """(rank, ranks) of the job; None without torch.distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return None
