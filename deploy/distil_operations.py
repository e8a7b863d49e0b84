#!/usr/bin/env python3
"""Distils published operation times into the tables of profile files.

    distil_operations.py AIC_DIR AMD_ASCEND_DIR GEMM_JSONL PROFILES_DIR [PROFILE...]

AIC_DIR holds gemm_*.csv.gz, attention_fwd_*.csv(.gz) and mla_*.csv as distilled from ai-dynamo/aiconfigurator,
AMD_ASCEND_DIR gemm_*, attention_* and grouped_gemm_* tables of AMD and Ascend types, GEMM_JSONL single operations with
their layouts. For every accelerator, kind of operation and precision it fits the base time of core/profile/operation_table.h,
keeps the samples that cover the shapes, and writes the fit, the samples and the error that leaving each sample out
gives into the profile's "tables". Prints the error on shapes that were not kept. Needs numpy.
"""
import csv
import glob
import gzip
import json
import os
import re
import sys

import numpy as np

KEPT = 220  # Samples of one table.
TILES = ((128, 256), (256, 128), (128, 128), (64, 128))
ROWS = 128  # Queries that one block of fused attention works on.
NEAR = 0.05  # Of distances in octaves, squared: see OperationTable.
PRIOR = 0.8
AIC = "ai-dynamo/aiconfigurator @095f58a, %s, random inputs, short bursts"
SIMUMAX_LICENCE = "Apache-2.0, copyright (c) 2023-2024 Moore Threads Technology Co., Ltd"
AIC_LICENCE = "Apache-2.0, copyright NVIDIA CORPORATION & AFFILIATES"


# Arithmetic rate that training keeps of these bursts: 16-bit products, 8-bit products, attention. On B200 the same
# 16-bit shapes run 1.37 times as long in MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json (514 shapes).
SUSTAINED = {"a100-sxm-80gb": (0.76, 1, 0.9), "a100-sxm-40gb": (0.76, 1, 0.9), "a800-sxm-80gb": (0.79, 1, 0.85),
             "h100-sxm": (0.82, 1, 0.7), "h800-sxm": (0.74, 1, 0.7), "gh200-96gb": (0.82, 1, 0.7),
             "h200-sxm": (0.82, 1, 0.7), "b200-sxm": (0.66, 0.95, 0.8), "b300-sxm": (0.74, 0.93, 0.85),
             "gb200": (0.76, 0.92, 0.7), "gb300": (0.78, 0.98, 0.9), "l40s": (0.85, 1, 0.9),
             "ascend-910b2": (0.93, 1, 1)}
SUSTAINED_SOURCE = "published training runs of this type and of those of its die, all sources together; tests/bench/fidelity"


def rows_of(path):
    for name in (path, path + ".gz"):
        if os.path.exists(name):
            with (gzip.open(name, "rt") if name.endswith(".gz") else open(name)) as file:
                yield from csv.DictReader(file)
            return


class Best:
    """The fastest time of every shape."""

    def __init__(self):
        self.seconds = {}

    def add(self, m, n, k, groups, seconds):
        shape = (m, n, k, groups)
        if seconds > 0 and seconds < self.seconds.get(shape, float("inf")):
            self.seconds[shape] = seconds

    def arrays(self):
        shapes = np.array(sorted(self.seconds), float).reshape(-1, 4)
        return shapes, np.array([self.seconds[tuple(int(x) for x in s)] for s in shapes])


# --- The base time, as core/profile/operation_table.cc has it ---

def work(kind, shapes, chip):
    m, n, k, g = shapes.T
    processors = chip["processors"]
    if kind.startswith("ATTENTION"):
        flops = 2 * g * m * n * k * (2.5 if kind.endswith("BACKWARD") else 1)
        blocks = g * np.ceil(m / ROWS)
        quantised = flops * np.ceil(blocks / processors) * processors / blocks * np.ceil(m / ROWS) * ROWS / m
        return flops, quantised, n
    flops = 2 * m * n * k
    quantised = np.full(len(m), np.inf)
    for rows, columns in TILES:
        tiles = g * np.ceil(m / g / rows) * np.ceil(n / columns)
        quantised = np.minimum(quantised, np.ceil(tiles / processors) * processors * rows * columns * 2 * k)
    return flops, np.maximum(quantised, flops), k


def traffic(kind, shapes, element):
    m, n, k, g = shapes.T
    if kind.startswith("ATTENTION"):
        return 2 * element * g * (m + n) * k * (2.5 if kind.endswith("BACKWARD") else 1)
    return element * (m * k + g * n * k) + 2 * m * n


def base(fit, kind, shapes, chip, element):
    peak_ratio, quantised_ratio, depth_half, fixed, traffic_ratio = fit
    flops, quantised, depth = work(kind, shapes, chip)
    flops = ((1 - quantised_ratio) * flops + quantised_ratio * quantised) * (1 + depth_half / depth)
    return fixed + np.maximum(flops / (chip["peak"] * peak_ratio),
                              traffic(kind, shapes, element) / (chip["bandwidth"] * traffic_ratio))


def fit_base(kind, shapes, seconds, chip, element):
    """Coordinate search from a few starts for the least mean absolute logarithm."""
    grids = [np.linspace(0.2, 1.0, 81), np.linspace(0, 1, 11), np.array([0, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024]),
             np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32]) * 1e-6, np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])]
    best = None
    for start in ([0.7, 0.3, 64, 2e-6, 0.7], [0.5, 0.7, 256, 4e-6, 0.6], [0.8, 0.0, 128, 4e-6, 0.8]):
        fit, error = list(start), None
        for _ in range(6):
            before = error
            for i, grid in enumerate(grids):
                errors = []
                for value in grid:
                    fit[i] = value
                    errors.append(np.abs(np.log(base(fit, kind, shapes, chip, element) / seconds)).mean())
                fit[i] = float(grid[int(np.argmin(errors))])
                error = min(errors)
            if before is not None and before - error < 1e-5:
                break
        if best is None or error < best[0]:
            best = (error, list(fit))
    return best[1]


# --- Samples and what lies between them ---

def octaves(shapes):
    return np.log2(np.maximum(shapes, 1))


def thin(shapes, count, seed=7):
    """Indices of samples that lie far from each other: the farthest-point rule."""
    points = octaves(shapes)
    if len(points) <= count:
        return np.arange(len(points))
    chosen = [int(np.random.default_rng(seed).integers(len(points)))]
    distance = ((points - points[chosen[0]]) ** 2).sum(1)
    while len(chosen) < count:
        farthest = int(np.argmax(distance))
        chosen.append(farthest)
        distance = np.minimum(distance, ((points - points[farthest]) ** 2).sum(1))
    return np.array(sorted(chosen))


def residual_at(points, samples, residuals, leave_out=False):
    distance = ((points[:, None, :] - samples[None, :, :]) ** 2).sum(2)
    weights = 1 / (NEAR + distance) ** 2
    if leave_out:
        np.fill_diagonal(weights, 0)
    return (weights * residuals).sum(1) / (weights.sum(1) + PRIOR)


def distil(kind, precision, best, chip, element, source, licence, label):
    shapes, seconds = best.arrays()
    flops = work(kind, shapes, chip)[0]
    ceiling = chip["peak"]
    keep = (flops > (1e10 if kind.startswith("ATTENTION") else 1e9)) & (flops / seconds < ceiling)
    shapes, seconds = shapes[keep], seconds[keep]
    if len(shapes) < 6:
        return None
    if len(shapes) > 8000:
        pick = np.random.default_rng(3).permutation(len(shapes))[:8000]
        shapes, seconds = shapes[pick], seconds[pick]
    fit = fit_base(kind, shapes, seconds, chip, element)
    predicted = base(fit, kind, shapes, chip, element)
    residuals = np.log(seconds / predicted)
    kept = thin(shapes, KEPT)
    points = octaves(shapes)
    left = residual_at(points[kept], points[kept], residuals[kept], leave_out=True)
    error = float(np.abs(left - residuals[kept]).mean())
    others = np.setdiff1d(np.arange(len(shapes)), kept)
    held = np.abs(residual_at(points[others], points[kept], residuals[kept]) - residuals[others]) if len(others) else np.array([np.nan])
    print("%-18s %-18s %-5s shapes %5d  base |log| mean %.3f median %.3f  left out %.3f  other shapes mean %.3f median %.3f"
          % (label, kind, precision, len(shapes), np.abs(residuals).mean(), np.median(np.abs(residuals)), error,
             held.mean(), np.median(held)))
    table = {"kind": "OPERATION_KIND_" + kind, "precision": "PRECISION_" + precision, "source": source, "licence": licence,
             "peak_ratio": round(fit[0], 4), "quantised_ratio": round(fit[1], 3), "depth_half": fit[2],
             "fixed_seconds": fit[3], "traffic_ratio": round(fit[4], 3), "stated_error": round(error + 0.0005, 3)}
    for name, column in zip(("m", "n", "k", "groups"), shapes[kept].T):
        table[name] = [int(x) for x in column]
    table["microseconds"] = [float("%.4g" % (s * 1e6)) for s in seconds[kept]]
    return table


# --- Sources ---

def aic_gemm(folder, name, dtypes):
    best = Best()
    for row in rows_of(os.path.join(folder, "gemm_%s.csv" % name)):
        m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
        if row["dtype"] in dtypes and not row["framework"].startswith("vllm") and m >= 256 and min(n, k) >= 128:
            best.add(m, n, k, 1, float(row["seconds"]))
    return best


def aic_attention(folder, name):
    best = Best()
    for row in rows_of(os.path.join(folder, "attention_fwd_%s.csv" % name)):
        seq = int(row["seq"])
        # Other heads fall back to slow kernels on some types, and are rare in training.
        common = row["head_dim"] in ("64", "96", "128")
        if common and row["dtype"] == "bf16" and row["causal"] == "1" and row["window"] == "0" and seq >= 512:
            best.add(seq, seq, int(row["head_dim"]), int(row["batch"]) * int(row["heads"]), float(row["seconds"]))
    for row in rows_of(os.path.join(folder, "mla_%s.csv" % name)):
        seq = int(row["seq"])
        if row["dtype"] == "bf16" and row["causal"] == "1" and seq >= 512:
            # Query and key heads of 192, value heads of 128.
            best.add(seq, seq, 160, int(row["batch"]) * int(row["heads_local"]), float(row["seconds"]))
    return best


def amd_gemm(folder, name, dtypes):
    best = Best()
    for row in rows_of(os.path.join(folder, "gemm_%s.csv" % name)):
        if row["dtype"] in dtypes and int(row["batch"] or 1) == 1 and int(row["m"]) >= 256 and min(int(row["n"]), int(row["k"])) >= 128:
            best.add(int(row["m"]), int(row["n"]), int(row["k"]), 1, float(row["seconds"]))
    return best


def amd_attention(folder, name, direction):
    best = Best()
    for row in rows_of(os.path.join(folder, "attention_%s.csv" % name)):
        if row["pass"] != direction or row["dtype"] not in ("bf16", "fp16") or row["causal"] != "1" or not row["seconds"]:
            continue
        seq, head = int(row["seq"]), (int(row["head_dim"]) + int(row["head_dim_v"] or row["head_dim"])) // 2
        if seq == int(row["seq_kv"] or seq) and seq >= 512:
            best.add(seq, seq, head, int(row["batch"]) * int(row["heads"]), float(row["seconds"]))
    return best


def amd_grouped(folder, name):
    best = Best()
    for row in rows_of(os.path.join(folder, "grouped_gemm_%s.csv" % name)):
        if "Primus-Turbo" in row["source"] and row["stage"] == "grouped_fwd" and "bf" in row["dtype_a"] + row["quant"]:
            tokens = int(row["tokens"]) * int(row["topk"])
            if tokens >= 1024:
                best.add(tokens, int(row["n"]), int(row["k"]), int(row["experts"]), float(row["seconds"]))
    return best


def simumax(path, hardware, kind):
    best = Best()
    for line in open(path):
        row = json.loads(line)
        if row.get("hardware") != hardware or "SimuMax" not in row["source"]:
            continue
        if kind == "GEMM" and row["kind"] == "gemm" and row["layout"] == "TN" and row["time_us"] and row["m"] >= 256:
            best.add(row["m"], row["n"], row["k"], 1, row["time_us"] * 1e-6)
        if kind == "GROUPED_GEMM" and row["kind"] == "grouped_gemm" and row["stage"] == "fwd" and row["time_us"]:
            best.add(row["m"] * row["groups"], row["n"], row["k"], row["groups"], row["time_us"] * 1e-6)
    return best


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    aic, amd, gemm_jsonl, profiles = sys.argv[1:5]
    only = sys.argv[5:]
    # Profiles that take the tables of a data source: their own, or those of the same die.
    own = {"a100-sxm-80gb": "a100_sxm", "a100-sxm-40gb": "a100_sxm", "a800-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm",
           "h800-sxm": "h100_sxm", "gh200-96gb": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm",
           "b300-sxm": "b300_sxm", "gb200": "gb200", "gb300": "gb300", "l40s": "l40s"}
    turbo = "AMD-AGI/Primus-Turbo results of 2026 and ROCm/aiter tuned tables and op_tests, fastest of each shape"
    for path in sorted(glob.glob(os.path.join(profiles, "*.json"))):
        name = os.path.basename(path)[:-5]
        if only and name not in only:
            continue
        text = open(path).read()
        profile = json.loads(text)
        if "multiprocessors" not in profile["compute"]:
            continue
        peaks = {p: profile["compute"].get(p + "_flops_per_second", {}).get("value") for p in ("bf16", "fp16", "fp8")}
        chip = {"processors": profile["compute"]["multiprocessors"]["value"],
                "bandwidth": profile["memory"]["bytes_per_second"]["value"]}

        def table(kind, precision, best, source, licence):
            chip["peak"] = peaks[precision.lower()]
            if not chip["peak"]:
                return None
            return distil(kind, precision, best, chip, 1 if precision == "FP8" else 2, source, licence, name)

        tables = []
        if name in own:
            data = own[name]
            tables = [table("GEMM", "BF16", aic_gemm(aic, data, ("bf16",)), AIC % ("gemm " + data), AIC_LICENCE)]
            # Static scales are the faster of both but at small n; on L40S they leave the cast out.
            best = aic_gemm(aic, data, ("fp8",) if data == "l40s" else ("fp8", "fp8_static"))
            if best.seconds:
                tables.append(table("GEMM", "FP8", best, AIC % ("gemm " + data), AIC_LICENCE))
                # At n <= 256, rows of fp8_static take as long as those of fp8, which cast the operand, and 7 to 21
                # times what their operands' traffic takes; those of sglang on L40S take 1.8 times that.
                if tables[-1]:
                    tables[-1]["includes_cast"] = True
            tables.append(table("ATTENTION", "BF16", aic_attention(aic, data), AIC % ("attention and mla " + data), AIC_LICENCE))
        if name == "b200-sxm":
            tables.append(table("GROUPED_GEMM", "BF16", simumax(gemm_jsonl, "B200", "GROUPED_GEMM"),
                                "MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json",
                                SIMUMAX_LICENCE))
        if name == "a100-pcie-80gb":
            tables.append(table("GEMM", "BF16", simumax(gemm_jsonl, "A100-PCIe-80GB", "GEMM"),
                                "MooreThreads/SimuMax configs/system/a100_pcie.json", SIMUMAX_LICENCE))
        if name in ("mi300x", "mi325x", "mi355x"):
            data = {"mi300x": "MI300X", "mi325x": "MI300X", "mi355x": "MI355X"}[name]
            tables = [table("GEMM", "BF16", amd_gemm(amd, data, ("bf16",)), turbo, "MIT"),
                      table("GEMM", "FP8", amd_gemm(amd, data, ("fp8",)), turbo, "MIT"),
                      table("GROUPED_GEMM", "BF16", amd_grouped(amd, data), turbo, "MIT"),
                      table("ATTENTION", "BF16", amd_attention(amd, data, "fwd"), turbo, "MIT"),
                      table("ATTENTION_BACKWARD", "BF16", amd_attention(amd, data, "bwd"), turbo, "MIT")]
        if name == "ascend-910b2":
            tables = [table("GEMM", "FP16", amd_gemm(amd, "Ascend910B2", ("fp16", "bf16")),
                            "zzc0721/torch-performance-test-data#109 and hw-native-sys/pto-isa", "facts only")]
        tables = [t for t in tables if t]
        if name in SUSTAINED:
            products, products8, attention = SUSTAINED[name]
            for t in tables:
                ratio = products8 if t["precision"] == "PRECISION_FP8" else attention if "ATT" in t["kind"] else products
                if ratio < 1 and "SimuMax" not in t["source"]:
                    t["sustained_ratio"], t["sustained_source"] = ratio, SUSTAINED_SOURCE
        text = re.sub(r',\n  "tables": \[\n.*?\n  \]', "", text, flags=re.S)
        text = re.sub(r',\n  "samples": \[\n.*?\n  \]', "", text, flags=re.S)
        if tables:
            body = ",\n".join("    " + json.dumps(t, separators=(",", ":")) for t in tables)
            # Last, or before the notes.
            text = re.sub(r'(,\n  "notes"|\n\}\s*$)', lambda end: ',\n  "tables": [\n%s\n  ]%s' % (body, end.group(1)), text, count=1)
        json.loads(text)
        open(path, "w").write(text)


if __name__ == "__main__":
    main()
