"""From measurements to a profile of one accelerator type, the JSON form of AcceleratorProfile
(proto/hapmoe/v1/profile.proto).

Where the planner knows the type, its data sheet stays and measurements replace what they speak of.
Where it does not, rates are the best that were measured, and say so.
"""

from __future__ import annotations

import collections
import copy
import statistics
from typing import Any, Optional

from . import fit, levels, shapes
from .figures import OURS, PEAK_TOLERANCE, figure, raise_to, value_of
from .links import Links
from .names import profile_name
from .job import degree, precision

Ranks = list[dict[str, Any]]

# Samples of a kind that stand for its table alone; with fewer, one that is known already stays.
_ENOUGH = {"GEMM": 12, "GROUPED_GEMM": 12, "ATTENTION": 4, "ATTENTION_BACKWARD": 4}
# Operators that the planner counts in the forward pass of a layer (core/model/operations*.cc).
_LAUNCHES = {"dense": 11, "moe": 15}
# A tiny operation measured alone takes what the host takes to issue it; the accelerator itself takes
# no longer than this.
_TINY_KERNEL_SECONDS = 5e-6


def build_profile(name: str, ranks: Ranks, base: Optional[dict[str, Any]]) -> dict[str, Any]:
    """The profile of the type that all `ranks` are of. `base`: what the planner knows of it.
    ValueError where neither it nor the measurements say how fast the type is."""
    return _Builder(name, ranks, base).build()


class _Builder:
    def __init__(self, name: str, ranks: Ranks, base: Optional[dict[str, Any]]) -> None:
        self._ranks = ranks
        self._base = base
        self._job = ranks[0]["job"]
        self._device = ranks[0]["device"]
        self._name = base["accelerator"] if base else profile_name(name)
        self._source = (
            f"{OURS}{ranks[0]['version']}: {len(ranks)} ranks of a job of "
            f"{ranks[0]['ranks']} on {self._device['name']}"
        )
        self._notes: list[str] = []
        self._modules = levels.Job(ranks)

    def build(self) -> dict[str, Any]:
        profile: dict[str, Any] = copy.deepcopy(self._base) if self._base else self._skeleton()
        samples = levels.samples_of(self._ranks)
        self._peaks(profile, samples)
        self._memory(profile)
        if not profile["compute"] or value_of(profile["memory"], "bytes_per_second") <= 0:
            raise ValueError(
                f"no profile of {self._name}: the planner does not know this type, and no benchmarks "
                "were run that tell its rates; name its profile with merge --base or --accelerator"
            )
        Links(self._ranks, self._source, self._notes).add_to(profile)
        self._launches(profile)
        self._tables(profile, samples)
        self._layers(profile)
        for note in dict.fromkeys(self._notes):
            if note not in profile.get("notes", ""):
                profile["notes"] = f"{profile.get('notes', '')} {note}".strip()
        return profile

    def _skeleton(self) -> dict[str, Any]:
        return {
            "accelerator": self._name,
            "vendor": self._device["vendor"],
            "architecture": self._device["architecture"],
            "compute": {},
            "memory": {},
            "scale_up": {},
            "network": {},
            "efficiency": {},
        }

    # --- Operations ---

    def _peaks(
        self, profile: dict[str, Any], samples: dict[str, dict[shapes.Shape, float]]
    ) -> None:
        """Peak rates: the data sheet's, or the best that was measured. Samples that beat the data
        sheet are left out."""
        if not self._job:
            return
        field = precision(self._job) + "_flops_per_second"
        rates = [
            fit.flops(kind, fit.Sample(*shape, seconds)) / seconds
            for kind, table in samples.items()
            for shape, seconds in table.items()
        ]
        if rates:
            raise_to(
                profile["compute"],
                field,
                max(rates),
                self._source + ": the fastest product; no data sheet",
            )
        limit = value_of(profile["compute"], field) * PEAK_TOLERANCE
        for kind, table in samples.items():
            for shape in list(table):
                if fit.flops(kind, fit.Sample(*shape, table[shape])) / table[shape] > limit:
                    del table[shape]
                    self._notes.append(f"A sample of {kind} above the data sheet was left out.")
        if "multiprocessors" not in profile["compute"] and self._device["multiprocessors"] > 0:
            profile["compute"]["multiprocessors"] = figure(
                self._device["multiprocessors"], "device properties as torch reads them", "HIGH"
            )

    def _tables(
        self, profile: dict[str, Any], samples: dict[str, dict[shapes.Shape, float]]
    ) -> None:
        if not self._job:
            return
        width = precision(self._job)
        peak = profile["compute"].get(width + "_flops_per_second", {}).get("value")
        if peak is None:
            return
        chip = fit.Chip(peak, value_of(profile["memory"], "bytes_per_second"))
        ratio = value_of(profile["efficiency"], "memory_ratio")
        fixed = value_of(profile["efficiency"], "kernel_seconds")
        tables = list(profile.get("tables", []))
        halves = ("PRECISION_BF16", "PRECISION_FP16")
        for kind, found in samples.items():
            if not found:
                continue
            rows = [fit.Sample(*shape, seconds) for shape, seconds in sorted(found.items())]
            table = fit.table(kind, width, rows, chip, fixed, ratio, self._source)
            # The planner takes the first table of a kind, and either 16-bit format for the other.
            same = halves if width != "fp32" else ("PRECISION_FP32",)
            known = any(
                old.get("kind") == table["kind"] and old.get("precision") in same for old in tables
            )
            if known and len(rows) < _ENOUGH[kind]:
                self._notes.append(f"{len(rows)} samples of {kind} were too few for a table.")
                continue
            tables = [
                old
                for old in tables
                if old.get("kind") != table["kind"] or old.get("precision") not in same
            ]
            tables.append(table)
        if tables:
            profile["tables"] = tables
        if self._base is None:
            self._ratios(profile, samples, peak)

    def _ratios(
        self, profile: dict[str, Any], samples: dict[str, dict[shapes.Shape, float]], peak: float
    ) -> None:
        """Shares of the peak, which the planner asks for where it has no table."""
        efficiency = profile["efficiency"]
        for field, kind in (
            ("matrix_ratio", "GEMM"),
            ("attention_forward_ratio", "ATTENTION"),
            ("attention_backward_ratio", "ATTENTION_BACKWARD"),
        ):
            ratios = [
                fit.flops(kind, fit.Sample(*shape, seconds)) / seconds / peak
                for shape, seconds in samples[kind].items()
            ]
            if ratios:
                value = min(1.0, max(1e-3, statistics.median(ratios)))
                efficiency[field] = figure(value, self._source + ": median of the samples")
            else:
                efficiency[field] = figure(0.5, "not measured; a guess", "LOW")

    # --- Memory ---

    def _memory(self, profile: dict[str, Any]) -> None:
        memory, efficiency = profile["memory"], profile["efficiency"]
        operations = [rank["operations"] for rank in self._ranks if rank.get("operations")]
        kernels = [o["kernel_seconds"] for o in operations if o.get("kernel_seconds")]
        if "kernel_seconds" not in efficiency:
            seconds = statistics.median(kernels) if kernels else 0.0
            if self._device["kind"] != "cpu":
                seconds = min(seconds, _TINY_KERNEL_SECONDS)
            efficiency["kernel_seconds"] = figure(seconds, self._source + ": a tiny operation")
        kernel = value_of(efficiency, "kernel_seconds")
        rates = [self._stream_rate(rank, kernel) for rank in self._ranks]
        rate = statistics.median([r for r in rates if r] or [0.0])
        best = [
            o["memory_bytes_per_second"] for o in operations if o.get("memory_bytes_per_second")
        ]
        raise_to(
            memory,
            "bytes_per_second",
            max([rate, *best], default=0.0),
            self._source + ": the faster of large additions and the job's streams; no data sheet",
        )
        peak = value_of(memory, "bytes_per_second")
        if rate > 0 and peak > 0:
            efficiency["memory_ratio"] = figure(
                min(1.0, max(1e-3, rate / peak)),
                self._source + ": norms, activations, residuals, permutations, loss and optimizer, "
                "each as often as an iteration runs it",
            )
        elif "memory_ratio" not in efficiency:
            efficiency["memory_ratio"] = figure(0.8, "not measured; a guess", "LOW")
        memory.setdefault(
            "capacity_bytes",
            figure(self._device["capacity_bytes"], "total memory as torch reads it", "HIGH"),
        )
        memory.setdefault("context_bytes", figure(0, "not measured; none", "LOW"))
        memory.setdefault("allocator_slack_ratio", figure(0, "not measured; none", "LOW"))

    def _stream_rate(self, rank: dict[str, Any], kernel: float) -> float:
        """Bytes in a second of everything in one iteration that memory traffic bounds: in layers as
        long as they spend outside of their products and exchanges where that is known."""
        streams = rank.get("operations", {}).get("streams", [])
        if not streams:
            return 0.0
        traffic = seconds = 0.0
        for kind, passes in self._passes(rank).items():
            here = [stream for stream in streams if kind in stream["count"]]
            moved = sum(stream["count"][kind] * stream["bytes"] for stream in here)
            launches = sum(stream["count"][kind] * stream["launches"] for stream in here)
            busy = levels.rest_of_layer(self._ranks, kind) if kind != "loss" else None
            if busy is None:
                busy = sum(stream["count"][kind] * stream["seconds"] for stream in here)
            traffic += passes * moved
            seconds += passes * max(0.0, busy - launches * kernel)
        typical = [rank["iterations"][i]["seconds"] for i in self._modules.typical]
        step = statistics.fmean(
            seconds.get("optimizer", 0.0) - seconds.get("parameter_gather", 0.0)
            for seconds in typical
        )
        if step > 0:
            traffic += self._optimizer_traffic(rank)
            seconds += step
        return traffic / seconds if seconds > 0 else 0.0

    def _passes(self, rank: dict[str, Any]) -> dict[str, float]:
        """How often a rank passes a layer of each kind, and the loss, in one iteration."""
        iteration = rank["iterations"][-1]
        passes: dict[str, float] = collections.defaultdict(float)
        for key, times in iteration["times"].items():
            if key.startswith("layer.") and key.endswith(".forward"):
                passes[iteration["layer_kinds"].get(key.split(".")[1], "dense")] += times
        if rank["stage"] == degree(self._job, "pipeline_model_parallel_size") - 1:
            passes["loss"] = iteration["times"].get("forward", 0)
        return passes

    def _optimizer_traffic(self, rank: dict[str, Any]) -> float:
        """As the planner counts it (core/cost/mesh_cost.cc): reads the gradient, reads and writes
        the states, writes the parameter."""
        job = rank["job"]
        element = fit.ELEMENT_BYTES[precision(job)]
        moments = 4 if str(job["optimizer"] or "adam").lower() == "sgd" else 8
        states = moments + (0 if precision(job) == "fp32" else 4)
        dense, experts = int(job["dense_parameters"]), int(job["expert_parameters"])
        if job["use_distributed_optimizer"]:
            tensor, pipeline = (
                degree(job, "tensor_model_parallel_size"),
                degree(job, "pipeline_model_parallel_size"),
            )
            shards = degree(job, "expert_model_parallel_size") * degree(
                job, "expert_tensor_parallel_size"
            )
            dense //= max(1, rank["ranks"] // (tensor * pipeline))
            experts //= max(1, rank["ranks"] // (shards * pipeline))
        return (dense + experts) * float(4 + 2 * states + element)

    # --- The host ---

    def _launches(self, profile: dict[str, Any]) -> None:
        """What the host takes to issue an operator: its time in a layer's forward pass over the
        operators that the planner counts in one. Only where the host ran ahead of the device."""
        efficiency = profile["efficiency"]
        shortest: list[float] = []
        for rank in self._ranks:
            for iteration in rank["iterations"]:
                host = device = operators = 0.0
                for key, seconds in iteration["host_seconds"].items():
                    if not (key.startswith("layer.") and key.endswith(".forward")):
                        continue
                    kind = iteration["layer_kinds"].get(key.split(".")[1], "dense")
                    host += seconds
                    device += iteration["seconds"].get(key, 0.0)
                    operators += _LAUNCHES[kind] * iteration["times"].get(key, 0)
                if operators and host < 0.9 * device:
                    shortest.append(host / operators)
        if self._device["kind"] != "cpu" and shortest:
            efficiency["launch_seconds"] = figure(
                min(shortest), self._source + ": the host in forward passes of layers"
            )
        elif "launch_seconds" not in efficiency:
            source = "the host is the device" if self._device["kind"] == "cpu" else "not measured"
            efficiency["launch_seconds"] = figure(0, source, "LOW")

    # --- Layers ---

    def _layers(self, profile: dict[str, Any]) -> None:
        """Dense layers as the job ran them, where the planner's description of a layer fits."""
        job = self._job
        if not job or not job["hidden_size"] or not job["ffn_hidden_size"]:
            return
        heads = int(job["num_attention_heads"])
        head = int(job["kv_channels"] or int(job["hidden_size"]) // heads)
        plain = not (
            job["multi_latent_attention"] or job["qk_layernorm"] or job["attention_output_gate"]
        )
        if not plain or heads * head != job["hidden_size"]:
            return
        if degree(job, "context_parallel_size") > 1 or job["recompute_granularity"] == "selective":
            return  # The planner's tables hold layers without either.
        dense = self._modules.layer("dense")
        if dense is None:
            return
        forward, backward = dense
        width = "fp8" if job["fp8"] else precision(job)
        if width + "_flops_per_second" not in profile["compute"]:
            return
        tensor = degree(job, "tensor_model_parallel_size")
        groups = int(job["num_query_groups"] or heads) if job["group_query_attention"] else heads
        table = {
            "hidden_size": job["hidden_size"],
            "ffn_hidden_size": job["ffn_hidden_size"],
            "gated_mlp": bool(job["swiglu"]),
            "attention_heads": heads,
            "query_groups": groups,
            "sequence_length": job["seq_length"],
            "precision": "PRECISION_" + width.upper(),
            "includes_tensor_communication": tensor > 1,
            "tensor_parallel": [tensor],
            "micro_batch": [job["micro_batch_size"]],
            "forward_microseconds": [forward * 1e6],
            "backward_microseconds": [backward * 1e6],
            "source": self._source,
        }
        identity = list(table)[:7]
        others = []
        for old in profile.get("layers", []):
            # As text: 64-bit numbers are that in JSON of protos.
            if any(str(old.get(field, False)) != str(table[field]) for field in identity):
                others.append(old)
            elif bool(old.get("includes_tensor_communication")) == (tensor > 1):
                _keep_other_cuts(old, table)
        profile["layers"] = [*others, table]


def _keep_other_cuts(old: dict[str, Any], table: dict[str, Any]) -> None:
    """Adds what an older table of the same layer has of other degrees and micro-batches."""
    own = (table["tensor_parallel"][0], table["micro_batch"][0])
    columns = ("tensor_parallel", "micro_batch", "forward_microseconds", "backward_microseconds")
    for row in zip(*(old.get(column, []) for column in columns)):
        if (int(row[0]), int(row[1])) != own:
            for column, value in zip(columns, row):
                table[column].append(value)
            if old.get("source", "") not in table["source"]:
                table["source"] += "; " + old["source"]
