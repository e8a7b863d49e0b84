"""What a profile says of links and collectives, from the curves that ranks measured."""

from __future__ import annotations

import collections
import math
import statistics
from typing import Any

from . import fit, levels
from .figures import OURS, PEAK_TOLERANCE, figure, value_of
from .job import degree, precision

Ranks = list[dict[str, Any]]


class Links:
    """The links of one accelerator type, as its ranks saw them."""

    def __init__(self, ranks: Ranks, source: str, notes: list[str]) -> None:
        """`notes` gets what a reader of the profile should know."""
        self._ranks = ranks
        self._job = ranks[0]["job"]
        self._source = source
        self._notes = notes

    def add_to(self, profile: dict[str, Any]) -> None:
        """Curves inside a node and, where no data sheet gives them, the rates of the links."""
        inside: dict[tuple[str, int], dict[float, list[float]]] = collections.defaultdict(
            lambda: collections.defaultdict(list)
        )
        network: list[float] = []
        for rank in self._ranks:
            local = rank["local_ranks"]
            for curve in rank.get("collectives", []):
                nodes = {member // local for member in curve["members"]}
                if len(nodes) > 1:
                    network.append(_network_rate(curve, len(nodes)))
                    continue
                points = inside[(curve["primitive"], curve["ranks"])]
                for size, seconds in zip(curve["bytes"], curve["seconds"]):
                    points[float(size)].append(seconds)
        medians = {
            key: [(size, statistics.median(times)) for size, times in sorted(points.items())]
            for key, points in inside.items()
        }
        self._links(profile, medians, [rate for rate in network if rate > 0])
        limit = value_of(profile["scale_up"], "bytes_per_second") * PEAK_TOLERANCE
        curves = list(profile.get("collectives", []))
        for (primitive, count), points in sorted(medians.items()):
            kept = [p for p in points if _least_bytes(primitive, count, p[0]) <= limit * p[1]]
            kept = fit.rising(kept)
            if len(kept) < 2:
                continue
            curve = fit.curve(self._at_level(profile, primitive, count, kept))
            message = {
                "primitive": "COLLECTIVE_PRIMITIVE_" + primitive,
                "ranks": count,
                **curve._asdict(),
                "source": self._source,
            }
            same = (message["primitive"], count)
            curves = [c for c in curves if (c.get("primitive"), c.get("ranks")) != same]
            curves.append(message)
        if curves:
            profile["collectives"] = curves

    def _at_level(
        self, profile: dict[str, Any], primitive: str, count: int, points: list[tuple[float, float]]
    ) -> list[tuple[float, float]]:
        """Exchanges of tokens at the level of the job. The planner multiplies a curve by the
        contention of the profile, which these times hold already."""
        expert = degree(self._job, "expert_model_parallel_size") if self._job else 1
        if primitive != "ALL_TO_ALL" or count != expert or not points:
            return points
        size = levels.exchange_bytes(self._job, fit.ELEMENT_BYTES[precision(self._job)])
        alone = fit.seconds_at([p[0] for p in points], [p[1] for p in points], size)
        level = levels.exchange_level(self._ranks, alone)
        if level is None:
            return points
        contention = profile.get("contention", {}).get("scale_up_factor", {}).get("value", 1.0)
        return [(point[0], point[1] * max(1.0, level / contention)) for point in points]

    def _links(
        self,
        profile: dict[str, Any],
        medians: dict[tuple[str, int], list[tuple[float, float]]],
        network: list[float],
    ) -> None:
        """Rates of the fabric and the network where no data sheet gives them."""
        scale_up, efficiency = profile["scale_up"], profile["efficiency"]
        rates = {
            key: max(_least_bytes(*key, size) / seconds for size, seconds in points)
            for key, points in medians.items()
        }
        known = scale_up.get("bytes_per_second", {}).get("source", OURS)
        if known.startswith(OURS) and (rates or not scale_up):
            pairs = [rate for (primitive, _), rate in rates.items() if primitive == "SEND_RECEIVE"]
            source = self._source + ": the busiest that a collective kept a rank's links"
            if not rates:
                source = "not measured, nothing is sent inside a node; the memory bandwidth"
            best = max(rates.values(), default=value_of(profile["memory"], "bytes_per_second"))
            best = max(best, 1e6, value_of(scale_up, "bytes_per_second"))
            scale_up["bytes_per_second"] = figure(best, source, "LOW")
            scale_up["pair_bytes_per_second"] = figure(max(pairs, default=best), source, "LOW")
            least = min((p[0][1] for p in medians.values()), default=0.0)
            scale_up["latency_seconds"] = figure(
                least, self._source + ": the quickest of the smallest messages", "LOW"
            )
            scale_up["domain_accelerators"] = figure(
                max(rank["local_ranks"] for rank in self._ranks), "ranks of a node of the job"
            )
            efficiency["scale_up_ratio"] = figure(1, "the rates are measured")
        links = profile["network"]
        if "bytes_per_second" not in links:
            if network:
                links["bytes_per_second"] = figure(max(network), self._source, "LOW")
            else:
                links["bytes_per_second"] = figure(
                    value_of(scale_up, "bytes_per_second"),
                    "not measured, the job ran on one node; that of the fabric",
                    "LOW",
                )
                self._notes.append("The network was not measured: give each pool its own.")
            links["latency_seconds"] = figure(
                value_of(scale_up, "latency_seconds"), "not measured; that of the fabric", "LOW"
            )
            efficiency["network_ratio"] = figure(1, "the rates are measured")
        elif network:
            share = max(network) / value_of(links, "bytes_per_second")
            efficiency["network_ratio"] = figure(
                min(1.0, max(1e-3, share)), self._source + ": collectives between nodes"
            )


def _least_bytes(primitive: str, ranks: int, size: float) -> float:
    """Bytes that cross one rank's links at least, whatever the algorithm (the planner's limit)."""
    if primitive in ("ALL_REDUCE", "SEND_RECEIVE"):
        return size
    return size * (ranks - 1) / ranks


def _network_rate(curve: dict[str, Any], nodes: int) -> float:
    """Bytes a second that one rank sends over the network in the largest message: a ring passes
    1 / (ranks of a node) of the tensor over each rank's own way out."""
    ranks = len(curve["members"])
    local = max(1.0, ranks / nodes)
    size, seconds = curve["bytes"][-1], curve["seconds"][-1]
    if seconds <= 0 or not math.isfinite(seconds):
        return 0.0
    if curve["primitive"] == "SEND_RECEIVE":
        return size / seconds
    if curve["primitive"] == "ALL_TO_ALL":
        return size * (ranks - local) / ranks / seconds
    rail = size / local * (ranks - 1) / ranks
    return (2 * rail if curve["primitive"] == "ALL_REDUCE" else rail) / seconds
