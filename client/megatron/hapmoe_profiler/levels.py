"""What the job itself showed of its operations, beside the micro-benchmarks.

Benchmarks know how times depend on shapes; the job knows how long its own shapes really take, at the
clocks and beside the traffic of training. So a table holds the job's own times where its modules
were timed, and the benchmarks of other shapes scaled by the ratio between the two.
"""

from __future__ import annotations

import collections
import statistics
from typing import Any, Optional

from . import shapes
from .job import degree
from .shapes import WEIGHT_GRADIENT_OVER_FORWARD, Shape

Ranks = list[dict[str, Any]]
Samples = dict[Shape, float]

KINDS = {
    "gemm": "GEMM",
    "grouped_gemm": "GROUPED_GEMM",
    "attention": "ATTENTION",
    "attention_backward": "ATTENTION_BACKWARD",
}


def typical(ranks: Ranks) -> list[int]:
    """The middle half of the recorded iterations by how long their slowest rank took: all times of
    a job are read off these, so that the parts add up to the whole."""
    count = min(len(rank["iterations"]) for rank in ranks)
    order = sorted(
        range(count),
        key=lambda i: max(rank["iterations"][i]["seconds"]["iteration"] for rank in ranks),
    )
    cut = count // 4
    return sorted(order[cut : count - cut])


def iteration_seconds(ranks: Ranks) -> float:
    """The mean of the typical iterations, each as long as its slowest rank took."""
    return statistics.fmean(
        max(rank["iterations"][i]["seconds"]["iteration"] for rank in ranks) for i in typical(ranks)
    )


class Job:
    """Times of the job's modules over the ranks of one accelerator type."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self.typical = typical(ranks)
        self._pace = [self._slowest(index) for index in self.typical]
        self.job: dict[str, Any] = ranks[0]["job"]

    def mean_pass(self, keys: list[str]) -> Optional[float]:
        """Seconds of one pass, the mean over the passes of typical iterations on the rank that set
        their pace; over all ranks where that one has none. None where nobody has recorded one."""
        everywhere = [r["iterations"][index] for r in self._ranks for index in self.typical]
        for iterations in (self._pace, everywhere):
            times = sum(one["times"].get(key, 0) for one in iterations for key in keys)
            if times:
                return (
                    sum(one["seconds"].get(key, 0.0) for one in iterations for key in keys) / times
                )
        return None

    def _slowest(self, index: int) -> dict[str, Any]:
        """An iteration as the rank saw it that its layers took longest, waiting in exchanges left
        out: the others wait for it."""

        def busy(iteration: dict[str, Any]) -> float:
            times = seconds = 0.0
            for key, value in iteration["seconds"].items():
                if key.startswith("layer."):
                    seconds += value
                    times += iteration["times"][key]
                elif key.startswith(("dispatch.", "combine.")):
                    seconds -= value
            return seconds / times if times else 0.0

        return max((rank["iterations"][index] for rank in self._ranks), key=busy)

    def both_passes(self, key: str) -> Optional[tuple[float, float]]:
        """Seconds of a forward and a backward pass through a module."""
        forward, backward = self.mean_pass([key + ".forward"]), self.mean_pass([key + ".backward"])
        return (forward, backward) if forward and backward else None

    def layer_numbers(self, kind: str) -> list[str]:
        """Numbers of the layers of a kind, "dense" or "moe"."""
        return sorted(
            {
                layer
                for rank in self._ranks
                for layer, of in rank["iterations"][-1]["layer_kinds"].items()
                if of == kind
            }
        )

    def layer(self, kind: str) -> Optional[tuple[float, float]]:
        """Seconds of a forward and a backward pass through a layer of a kind."""
        numbers = self.layer_numbers(kind)
        forward = self.mean_pass([f"layer.{number}.forward" for number in numbers])
        backward = self.mean_pass([f"layer.{number}.backward" for number in numbers])
        return (forward, backward) if forward and backward else None

    def plain(self) -> bool:
        """Whether modules hold nothing but their own arithmetic, in the precision of the
        benchmarks: no collectives of tensor or context parallelism, no recomputation, no 8-bit
        products, and no input that another module shares."""
        job = self.job
        return bool(job) and not (
            degree(job, "tensor_model_parallel_size") > 1
            or degree(job, "context_parallel_size") > 1
            or degree(job, "expert_tensor_parallel_size") > 1
            or job["recompute_granularity"]
            or job["fp8"]
            or job["moe_shared_expert_intermediate_size"]
        )

    def linears(self) -> dict[Shape, tuple[float, float]]:
        """Seconds of the forward and the backward pass of each product outside of experts."""
        found: dict[Shape, tuple[float, float]] = {}
        keys = {
            key.rsplit(".", 1)[0]
            for rank in self._ranks
            for key in rank["iterations"][-1]["times"]
            if key.startswith(("linear.", "outer_linear."))
        }
        for key in sorted(keys):
            passes = self.both_passes(key)
            if passes is not None:
                m, n, k = (int(x) for x in key.split(".")[1].split("x"))
                found[Shape(m, n, k)] = passes
        return found


def benchmarks(ranks: Ranks) -> dict[str, dict[Shape, list[float]]]:
    """Seconds of each kind and shape by the benchmarks, of all ranks and directions."""
    found: dict[str, dict[Shape, list[float]]] = {}
    for field, kind in KINDS.items():
        times: dict[Shape, list[float]] = collections.defaultdict(list)
        for rank in ranks:
            for one in rank.get("operations", {}).get(field, []):
                shape = Shape(one["m"], one["n"], one["k"], one["groups"])
                times[shape].append(one["seconds"])
        found[kind] = times
    return found


def directions(table: dict[Shape, list[float]], shape: Shape) -> Optional[tuple[float, float]]:
    """What the benchmarks say of a product's forward and backward pass."""
    inputs, weights = shapes.input_gradient(shape), shapes.weight_gradient(shape)
    if not all(one in table for one in (shape, inputs, weights)):
        return None
    backward = statistics.median(table[inputs])
    backward += statistics.median(table[weights]) * WEIGHT_GRADIENT_OVER_FORWARD
    return statistics.median(table[shape]), backward


def calibrated(
    table: dict[Shape, list[float]], own: dict[Shape, tuple[float, float]]
) -> tuple[Samples, float]:
    """The table of a kind of product, and its level: the job's time over the benchmarks' of the
    same shapes. `own`: the forward and backward passes that the job took."""
    measured: dict[Shape, list[float]] = collections.defaultdict(list)
    job = bench = 0.0
    for shape, (forward, backward) in own.items():
        known = directions(table, shape)
        inputs, weights = shapes.input_gradient(shape), shapes.weight_gradient(shape)
        share = 0.5
        if known is not None:
            job += forward + backward
            bench += known[0] + known[1]
            share = statistics.median(table[inputs]) / known[1]
        measured[shape].append(forward)
        measured[inputs].append(backward * share)
        measured[weights].append(backward * (1 - share) / WEIGHT_GRADIENT_OVER_FORWARD)
    level = job / bench if job > 0 and bench > 0 else 1.0
    samples = {shape: statistics.median(times) * level for shape, times in table.items()}
    samples.update({shape: statistics.fmean(times) for shape, times in measured.items()})
    return samples, level


def samples_of(ranks: Ranks) -> dict[str, Samples]:
    """Seconds of each kind and shape, at the level of the job where it was timed."""
    tables = benchmarks(ranks)
    modules = Job(ranks)
    found = {
        kind: {shape: statistics.median(times) for shape, times in table.items()}
        for kind, table in tables.items()
    }
    if not modules.job:
        return found
    level = 1.0
    if modules.plain():
        found["GEMM"], level = calibrated(tables["GEMM"], modules.linears())
        scale = _experts_level(modules, tables["GROUPED_GEMM"], _activation(ranks, "moe"))
        found["GROUPED_GEMM"] = {
            shape: statistics.median(times) * (scale or level)
            for shape, times in tables["GROUPED_GEMM"].items()
        }
    attention = modules.both_passes("core_attention")
    own = shapes.attentions(modules.job)[:1]
    if attention is not None and own:
        for kind, seconds in zip(("ATTENTION", "ATTENTION_BACKWARD"), attention):
            bench = found[kind].get(own[0])
            if bench:
                ratio = seconds / bench
                found[kind] = {shape: time * ratio for shape, time in found[kind].items()}
            found[kind][own[0]] = seconds
    return found


def _activation(ranks: Ranks, kind: str) -> float:
    """Seconds of the activation in a layer of a kind, forward and backward, by the benchmarks."""
    times = [
        stream["seconds"]
        for rank in ranks
        for stream in rank.get("operations", {}).get("streams", [])
        if stream["name"] == "activation" and kind in stream["count"]
    ]
    return statistics.median(times) if times else 0.0


def _experts_level(
    modules: Job, table: dict[Shape, list[float]], activation: float
) -> Optional[float]:
    """The job's time in the products of its experts over the benchmarks'."""
    if modules.job["moe_expert_capacity_factor"]:
        return None  # Experts then compute fewer rows than were routed, or padded ones.
    passes = modules.both_passes("experts")
    own = [directions(table, shape) for shape in shapes.grouped_products(modules.job)[:2]]
    if passes is None or not own or None in own:
        return None
    bench = sum(forward + backward for forward, backward in own if own)
    products = sum(passes) - activation
    return products / bench if products > 0 and bench > 0 else None


def exchange_level(ranks: Ranks, alone_seconds: float) -> Optional[float]:
    """How long an exchange of tokens takes in the job, waiting for the last rank included, over
    what it takes alone. None where the job has none that is a plain all-to-all."""
    modules = Job(ranks)
    exchanges = [modules.both_passes(name) for name in ("dispatch", "combine")]
    if not modules.plain() or None in exchanges or alone_seconds <= 0:
        return None
    if str(modules.job["moe_token_dispatcher_type"] or "alltoall") != "alltoall":
        return None
    if degree(modules.job, "expert_model_parallel_size") < 2:
        return None
    if modules.job["moe_expert_capacity_factor"]:
        return None
    return statistics.fmean(sum(passes) for passes in exchanges if passes) / 2 / alone_seconds


def exchange_bytes(job: dict[str, Any], element: int) -> int:
    """What a rank sends in one exchange when routing is balanced."""
    rows = int(job["moe_router_topk"] or 1) * int(job["seq_length"]) * int(job["micro_batch_size"])
    rows //= degree(job, "context_parallel_size") * degree(job, "tensor_model_parallel_size")
    return rows * int(job["hidden_size"]) * element


def rest_of_layer(ranks: Ranks, kind: str) -> Optional[float]:
    """Seconds that a layer spends outside of its products, attention and exchanges, forward and
    backward together: what memory traffic bounds, and what no list of operations counts. None where
    the layer's modules were not all timed."""
    modules = Job(ranks)
    layer = modules.layer(kind)
    attention = modules.both_passes("core_attention")
    if not modules.plain() or layer is None or attention is None:
        return None
    job = modules.job
    hidden, linears = int(job["hidden_size"]), modules.linears()
    heads = int(job["num_attention_heads"])
    head = int(job["kv_channels"] or hidden // heads)
    groups = int(job["num_query_groups"] or heads) if job["group_query_attention"] else heads
    rows = int(job["seq_length"]) * int(job["micro_batch_size"])
    wanted = [
        Shape(rows, head * (heads + 2 * groups), hidden),
        Shape(rows, hidden, heads * head),
    ]
    rest = sum(layer) - sum(attention)
    if kind == "dense":
        ffn, gate = int(job["ffn_hidden_size"]), 2 if job["swiglu"] else 1
        wanted += [Shape(rows, gate * ffn, hidden), Shape(rows, hidden, ffn)]
    else:
        experts = modules.both_passes("experts")
        if experts is None:
            return None
        rest -= sum(experts) - _activation(ranks, "moe")
        for exchange in ("dispatch", "combine"):
            rest -= sum(modules.both_passes(exchange) or (0.0, 0.0))
        gate_product = directions(
            benchmarks(ranks)["GEMM"], Shape(rows, int(job["num_experts"]), hidden)
        )
        rest -= sum(gate_product or (0.0, 0.0))
    for shape in wanted:
        if shape not in linears:
            return None
        rest -= sum(linears[shape])
    return rest if rest > 0 else None
