#!/usr/bin/env python3
"""Distils published collective times into the curves of profile files.

    distil_collectives.py OPS_DIR AMD_ASCEND_DIR PROFILES_DIR

OPS_DIR holds collectives.csv.gz as distilled from ai-dynamo/aiconfigurator, AMD_ASCEND_DIR collectives2.csv with
tables of other makers. Every third point is held back; the others are thinned until straight lines between the points
left miss none of them by more than TOLERANCE. Writes the curves, the held points and a bound on what the curves miss
them by into the profile's "collectives", and prints that error.
"""
import collections
import csv
import gzip
import json
import math
import os
import re
import statistics
import sys

TOLERANCE = 0.04
LEAST_BYTES = 4096  # Below, every time is the latency.
OPERATIONS = {"all_gather": "ALL_GATHER", "reduce_scatter": "REDUCE_SCATTER", "all_reduce": "ALL_REDUCE",
              "alltoall": "ALL_TO_ALL", "all_to_all": "ALL_TO_ALL", "send_recv": "SEND_RECEIVE"}
AIC = "ai-dynamo/aiconfigurator @095f58a, nccl-tests of NCCL %s, fp16, alone in one node"
AIC_LICENCE = "Apache-2.0, copyright NVIDIA CORPORATION & AFFILIATES"
# Profiles on the same fabric. Four and eight L40S were measured without peer access: pairs only.
FABRICS = {"a100_sxm": ("a100-sxm-80gb", "a100-sxm-40gb"), "h100_sxm": ("h100-sxm",), "h200_sxm": ("h200-sxm",),
           "b200_sxm": ("b200-sxm",), "b300_sxm": ("b300-sxm",), "gb200": ("gb200",), "gb300": ("gb300",),
           "l40s": ("l40s",)}
OTHERS = {
    ("Ascend910C", "HCCL through FlagCX homogeneous path"):
        (("ascend-910c",), "flagos-ai/FlagCX test/perf/log, HCCL, 8 dies of one server", "Apache-2.0"),
    ("H800", "NCCL (torch.distributed, median)"):
        (("h800-sxm",), "zksainx/pipeweave @55e0317 dataset/collective/H800, NCCL through torch.distributed",
         "Apache-2.0"),
    ("MI300X", "RCCL"):
        (("mi300x", "mi325x"), "ROCm MI300X system-acceptance document, rccl-tests", "facts of a document"),
}


def points_of(ops, others):
    """{(profiles, primitive, ranks): ({bytes: [seconds]}, source, licence)}"""
    with gzip.open(os.path.join(ops, "collectives.csv.gz"), "rt") as file:
        rows = [r for r in csv.DictReader(file) if r["source"] == "aiconfigurator_nccltests" and
                r["library"] == "nccl" and r["dtype"] == "fp16" and r["accelerator"] in FABRICS]
    newest = {}
    key = lambda r: (r["accelerator"], r["op"], int(r["num_accelerators"]))
    for row in rows:
        newest[key(row)] = max(newest.get(key(row), ""), row["version"])
    found = {}

    def add(profiles, op, ranks, row, source, licence):
        one = found.setdefault((profiles, OPERATIONS[op], ranks), (collections.defaultdict(list), source, licence))
        if float(row["bytes"]) >= LEAST_BYTES:
            one[0][float(row["bytes"])].append(float(row["seconds"]))

    for row in rows:
        if row["version"] != newest[key(row)]:
            continue
        if row["accelerator"] == "l40s" and row["num_accelerators"] != "2":
            continue
        add(FABRICS[row["accelerator"]], row["op"], int(row["num_accelerators"]), row, AIC % row["version"], AIC_LICENCE)
    with open(os.path.join(others, "collectives2.csv")) as file:
        for row in csv.DictReader(file):
            other = OTHERS.get((row["accelerator"], row["library"]))
            if other is None or row["nodes"] != "1" or row["op"] not in OPERATIONS or not row["seconds"]:
                continue
            if row["accelerator"] == "MI300X" and "system-acceptance" not in row["source"]:
                continue
            # Its send and receive starts at 1 ms, whatever the size: the first call was timed.
            if row["accelerator"] == "Ascend910C" and row["op"] == "send_recv":
                continue
            add(other[0], row["op"], int(row["num_accelerators"]), row, other[1], other[2])
    return found


def interpolate(points, size):
    if size <= points[0][0]:
        return points[0][1]
    for (b0, s0), (b1, s1) in zip(points, points[1:]):
        if size <= b1:
            return s0 + (size - b0) / (b1 - b0) * (s1 - s0)
    return points[-1][1] * size / points[-1][0]


def rising(points):
    """Pools neighbours until time never falls with size."""
    pools = []
    for size, seconds in points:
        pools.append([[size], seconds, 1])
        while len(pools) > 1 and pools[-2][1] > pools[-1][1]:
            last, before = pools.pop(), pools.pop()
            count = before[2] + last[2]
            pools.append([before[0] + last[0], (before[1] * before[2] + last[1] * last[2]) / count, count])
    return [(size, seconds) for sizes, seconds, _ in pools for size in sizes]


def sparse(points):
    """Of a dense sweep the median rate of every third of an octave."""
    if len(points) <= 48:
        return points
    bins = collections.defaultdict(list)
    for size, seconds in points:
        bins[round(math.log2(size) * 3)].append((size, seconds))
    return [sorted(one, key=lambda p: p[1] / p[0])[len(one) // 2] for _, one in sorted(bins.items())]


def thin(points):
    kept = {0, len(points) - 1}
    while True:
        curve = [points[i] for i in sorted(kept)]
        worst = max((abs(interpolate(curve, b) - s) / s, i) for i, (b, s) in enumerate(points))
        if worst[0] <= TOLERANCE:
            return curve
        kept.add(worst[1])


def rounded(seconds):
    return float("%.4g" % seconds)


def curve_of(primitive, ranks, sizes, source, licence):
    points = sparse(sorted((b, statistics.median(s)) for b, s in sizes.items()))
    held = [p for i, p in enumerate(points) if i % 3 == 1 and i < len(points) - 1]
    curve = [(b, rounded(s)) for b, s in thin(rising([p for p in points if p not in held]))]
    held = [(b, rounded(s)) for b, s in held]
    error = sum(abs(interpolate(curve, b) - s) / s for b, s in held) / len(held)
    whole = lambda x: int(x) if x == int(x) else x
    return error, {
        "primitive": "COLLECTIVE_PRIMITIVE_" + primitive, "ranks": ranks,
        "bytes": [whole(b) for b, _ in curve], "seconds": [s for _, s in curve],
        "held_bytes": [whole(b) for b, _ in held], "held_seconds": [s for _, s in held],
        "error_bound": math.ceil(error * 110) / 100, "source": source, "licence": licence}


def main():
    ops, others, profiles = sys.argv[1:]
    curves = collections.defaultdict(list)
    for (names, primitive, ranks), (sizes, source, licence) in sorted(points_of(ops, others).items()):
        error, curve = curve_of(primitive, ranks, sizes, source, licence)
        print("%-14s %-15s %2d ranks  %3d points, %2d kept, %2d held: error %.3f" % (
            names[0], primitive, ranks, len(sizes), len(curve["bytes"]), len(curve["held_bytes"]), error))
        for name in names:
            curves[name].append(curve)
    for name, some in curves.items():
        path = os.path.join(profiles, name + ".json")
        with open(path) as file:
            text = file.read()
        text = re.sub(r'  "collectives": \[\n.*?\n  \],\n', "", text, flags=re.S)
        body = ",\n".join("    " + json.dumps(c, separators=(",", ":")) for c in some)
        text = text.replace('  "efficiency": {', '  "collectives": [\n%s\n  ],\n  "efficiency": {' % body, 1)
        json.loads(text)
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
