"""Joins the files of all ranks: profiles, router statistics, and the report of the iteration."""

from __future__ import annotations

import glob
import os
import re
import statistics
from typing import Any

from . import accelerator, files, log
from .levels import iteration_seconds, typical
from .profile import build_profile

ROUTER_STATISTICS = "router-stats.json"
REPORT = "report.json"

Ranks = list[dict[str, Any]]


def rank_file(rank: int) -> str:
    """Name of a rank's file."""
    return f"rank-{rank:05d}.json"


def rank_files(directory: str) -> list[str]:
    """The rank files of a folder, in order of rank."""
    return sorted(glob.glob(os.path.join(directory, "rank-[0-9]*.json")))


def merge(directory: str, base: str = "", name: str = "") -> list[str]:
    """Reads the rank files of `directory` and writes what follows from them, returned as paths:
    one profile for each accelerator type, router statistics where the job has experts, and the
    report. `base`: a profile to start from; `name`: the accelerator type where all ranks are of
    one. A type of which too little is known gets no profile, which is logged. OSError or ValueError
    say what is wrong with the files."""
    paths = rank_files(directory)
    if not paths:
        raise ValueError(f"{directory}: no file of a rank; has the job recorded its iterations?")
    ranks: Ranks = [files.read_json(path) for path in paths]
    for path, rank in zip(paths, ranks):
        if not isinstance(rank, dict) or not rank.get("iterations"):
            raise ValueError(f"{path}: holds no iteration")
    if len(ranks) < ranks[0]["ranks"]:
        log.once(f"{directory} has files of {len(ranks)} of {ranks[0]['ranks']} ranks")
    written = []
    types: dict[str, Ranks] = {}
    for rank in ranks:
        types.setdefault(
            name or rank["settings"]["accelerator"] or rank["device"]["name"], []
        ).append(rank)
    for type_name, members in sorted(types.items()):
        known = accelerator.find(type_name, base)
        try:
            profile = build_profile(type_name, members, known)
        except ValueError as error:
            log.once(str(error))
            continue
        path = os.path.join(directory, f"profile-{_slug(profile['accelerator'])}.json")
        files.write_json(path, profile)
        written.append(path)
    routing = router_statistics(ranks)
    if routing:
        path = os.path.join(directory, ROUTER_STATISTICS)
        files.write_json(path, routing, indent=None)
        written.append(path)
    path = os.path.join(directory, REPORT)
    files.write_json(path, report(ranks))
    written.append(path)
    return written


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def router_statistics(ranks: Ranks) -> list[list[int]]:
    """Tokens of each expert, one list for each layer with experts, in order of layers, over all
    ranks and recorded iterations: what `hapmoe plan --router-stats` reads."""
    layers: dict[int, list[int]] = {}
    for rank in ranks:
        for iteration in rank["iterations"]:
            for layer, tokens in iteration["expert_tokens"].items():
                counts = layers.setdefault(int(layer), [0] * len(tokens))
                for expert, count in enumerate(tokens):
                    counts[expert] += int(count)
    return [layers[layer] for layer in sorted(layers)]


def imbalance(routing: list[list[int]], parts: int) -> float:
    """Load of the busiest of `parts` equal runs of experts over the mean, averaged over layers."""
    ratios = []
    for tokens in routing:
        size = max(1, len(tokens) // max(1, parts))
        loads = [sum(tokens[i : i + size]) for i in range(0, len(tokens), size)]
        mean = sum(loads) / len(loads)
        if mean > 0:
            ratios.append(max(loads) / mean)
    return statistics.fmean(ratios) if ratios else 1.0


# Phases of an iteration that do not contain one another, and those inside of them.
_PHASES = ("forward", "backward", "pipeline", "gradient_sync", "optimizer")
_PARTS = (
    "parameter_gather",
    "router",
    "dispatch.forward",
    "dispatch.backward",
    "experts.forward",
    "experts.backward",
    "combine.forward",
    "combine.backward",
)


def report(ranks: Ranks) -> dict[str, Any]:
    """The measured iteration: what it took, and the memory and phases of each stage."""
    routing = router_statistics(ranks)
    job = ranks[0]["job"]
    stages: dict[int, Ranks] = {}
    for rank in ranks:
        stages.setdefault(int(rank["stage"]), []).append(rank)
    answer: dict[str, Any] = {
        "plan_id": next((r["settings"]["plan_id"] for r in ranks if r["settings"]["plan_id"]), ""),
        "iteration_seconds": iteration_seconds(ranks),
        "iterations": min(len(rank["iterations"]) for rank in ranks),
        "stages": [_stage_report(stage, stages[stage], typical(ranks)) for stage in sorted(stages)],
    }
    if routing:
        answer["router_imbalance"] = imbalance(
            routing, int(job.get("expert_model_parallel_size") or 1)
        )
    return answer


def _stage_report(stage: int, ranks: Ranks, iterations: list[int]) -> dict[str, Any]:
    def peak(name: str) -> int:
        return max(rank["iterations"][-1]["memory"]["end"][name] for rank in ranks)

    def mean(phase: str) -> float:
        return statistics.fmean(
            rank["iterations"][i]["seconds"].get(phase, 0.0) for rank in ranks for i in iterations
        )

    # On CPUs torch has no allocator to ask: what the process holds is no such figure.
    if ranks[0]["device"]["kind"] == "cpu":
        memory = {"peak_resident_bytes": peak("peak_allocated_bytes")}
    else:
        memory = {name: peak(name) for name in ("peak_allocated_bytes", "peak_reserved_bytes")}
    phases = {phase: mean(phase) for phase in (*_PHASES, *_PARTS)}
    return {
        "stage": stage,
        "ranks": [rank["rank"] for rank in ranks],
        "accelerator": ranks[0]["settings"]["accelerator"] or ranks[0]["device"]["name"],
        **memory,
        "seconds": {phase: seconds for phase, seconds in phases.items() if seconds > 0},
    }
