"""Tables of operations as profiles hold them: a base time, and samples that correct it.

The planner's core/profile/operation_table.h has the base time; a profile states how well its
samples predict each other, and the planner refuses one that states too little. So what is computed
here equals what is computed there, with whole tiles left out (`quantised_ratio` 0), since the
samples are of the job's own shapes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

_NEAR = 0.05
_PRIOR = 0.8
_OUTPUT_BYTES = 2
_BACKWARD = 2.5  # Matrix products of attention's backward pass over those of its forward pass.
_RATIOS = [x / 100 for x in range(2, 101)]
_DEPTHS = [0, 16, 32, 64, 128, 256, 512]
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


class Sample(NamedTuple):
    m: int
    n: int
    k: int
    groups: int
    seconds: float


def _passes(kind: str) -> float:
    return _BACKWARD if kind == "ATTENTION_BACKWARD" else 1.0


def flops(kind: str, sample: Sample) -> float:
    """Operations, as the planner counts them."""
    product = 2.0 * sample.m * sample.n * sample.k
    return product * sample.groups * _passes(kind) if kind.startswith("ATTENTION") else product


def _traffic(kind: str, sample: Sample, element: int) -> float:
    m, n, k, groups, _ = sample
    if kind.startswith("ATTENTION"):
        return 2.0 * element * groups * (m + n) * k * _passes(kind)
    return element * (m * k + groups * n * k) + float(_OUTPUT_BYTES * m * n)


class Chip(NamedTuple):
    """What operation times depend on."""

    flops_per_second: float
    bytes_per_second: float


class Base(NamedTuple):
    """The base time of one kind of operation."""

    peak_ratio: float
    depth_half: float
    fixed_seconds: float
    traffic_ratio: float

    def seconds(self, kind: str, sample: Sample, chip: Chip, element: int) -> float:
        depth = sample.n if kind.startswith("ATTENTION") else sample.k
        arithmetic = flops(kind, sample) * (1 + self.depth_half / max(depth, 1))
        return self.fixed_seconds + max(
            arithmetic / (chip.flops_per_second * self.peak_ratio),
            _traffic(kind, sample, element) / (chip.bytes_per_second * self.traffic_ratio),
        )


def fit_base(
    kind: str, samples: list[Sample], chip: Chip, element: int, fixed: float, traffic_ratio: float
) -> Base:
    """The base time with the least mean absolute logarithm over the samples. `fixed` is the time of
    the smallest operation, which no sample may be below."""
    fixed = min([fixed, *(0.5 * sample.seconds for sample in samples)])
    best = (math.inf, Base(1.0, 0.0, fixed, traffic_ratio))
    for depth in _DEPTHS:
        for ratio in _RATIOS:
            base = Base(ratio, float(depth), fixed, traffic_ratio)
            error = sum(
                abs(math.log(base.seconds(kind, sample, chip, element) / sample.seconds))
                for sample in samples
            )
            if error < best[0] - 1e-12:
                best = (error, base)
    return best[1]


def left_out_error(kind: str, samples: list[Sample], base: Base, chip: Chip, element: int) -> float:
    """Mean absolute logarithm of predicted over measured time, each sample by the others."""
    points = [
        tuple(math.log2(max(x, 1)) for x in (sample.m, sample.n, sample.k, sample.groups))
        for sample in samples
    ]
    residuals = [
        math.log(sample.seconds / base.seconds(kind, sample, chip, element)) for sample in samples
    ]
    total = 0.0
    for i, point in enumerate(points):
        weights, weighted = _PRIOR, 0.0
        for j, other in enumerate(points):
            if i == j:
                continue
            distance = sum((a - b) ** 2 for a, b in zip(point, other))
            weight = 1 / (_NEAR + distance) ** 2
            weights += weight
            weighted += weight * residuals[j]
        total += abs(weighted / weights - residuals[i])
    return total / max(1, len(samples))


def table(
    kind: str,
    precision: str,
    samples: list[Sample],
    chip: Chip,
    fixed: float,
    traffic_ratio: float,
    source: str,
) -> dict[str, Any]:
    """One message OperationTable. `samples` must not be empty."""
    element = ELEMENT_BYTES[precision]
    base = fit_base(kind, samples, chip, element, fixed, traffic_ratio)
    error = left_out_error(kind, samples, base, chip, element)
    return {
        "kind": "OPERATION_KIND_" + kind,
        "precision": "PRECISION_" + precision.upper(),
        "source": source,
        "peak_ratio": base.peak_ratio,
        "depth_half": base.depth_half,
        "fixed_seconds": base.fixed_seconds,
        "traffic_ratio": base.traffic_ratio,
        "stated_error": math.ceil(error * 1000 + 1) / 1000,
        "m": [sample.m for sample in samples],
        "n": [sample.n for sample in samples],
        "k": [sample.k for sample in samples],
        "groups": [sample.groups for sample in samples],
        "microseconds": [sample.seconds * 1e6 for sample in samples],
    }


class Curve(NamedTuple):
    """One message CollectiveCurve, its points split into the curve's and those held back."""

    bytes: list[float]
    seconds: list[float]
    held_bytes: list[float]
    held_seconds: list[float]
    error_bound: float


_MOST_ERROR = 0.5  # What the planner takes.


def rising(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points in order of size, where no larger message is quicker."""
    found: list[tuple[float, float]] = []
    for size, seconds in sorted(points):
        found.append((size, max(seconds, found[-1][1] if found else 0.0)))
    return found


def curve(points: list[tuple[float, float]]) -> Curve:
    """A curve through points that rise, with every third point held back to state its error. Where
    the error is above what the planner takes, nothing is held back."""
    held = [i for i in range(1, len(points) - 1) if i % 3 == 2]
    kept = [i for i in range(len(points)) if i not in held]
    sizes = [points[i][0] for i in kept]
    times = [points[i][1] for i in kept]
    errors = [
        abs(seconds_at(sizes, times, points[i][0]) - points[i][1]) / points[i][1] for i in held
    ]
    error = sum(errors) / len(errors) if errors else 0.0
    if error >= _MOST_ERROR:
        held, error = [], 0.0
        sizes, times = [size for size, _ in points], [seconds for _, seconds in points]
    bound = min(_MOST_ERROR, max(0.05, math.ceil(error * 1010) / 1000))
    return Curve(sizes, times, [points[i][0] for i in held], [points[i][1] for i in held], bound)


def seconds_at(sizes: list[float], times: list[float], size: float) -> float:
    """What a curve says: straight lines between its points, the first time below them, the last
    rate above."""
    if size <= sizes[0]:
        return times[0]
    for i in range(1, len(sizes)):
        if size <= sizes[i]:
            share = (size - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
            return times[i - 1] + share * (times[i] - times[i - 1])
    return times[-1] * size / sizes[-1]
