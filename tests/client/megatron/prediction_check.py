"""Plans from the profiler's file alone, beside the iterations that it measured.

    prediction_check.py --binaries DIR [--limit 0.15]

Trains the stand-in in several layouts on two processes, stores the profile that comes out in a
server of its own, and asks it for a plan of the same job on two of these CPUs, with the degrees of
the job. The predicted iteration must be within the limit of the measured one. A layout that is not
at first is run twice more and judged by the middle one: the machine may be busy with other things.
Prints how much more processor time an iteration takes while it is recorded, too. No unit test: it
wants two cores to itself.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

import support
from support import SCRIPT, run_job

JOB = (
    "--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 "
    "--max-position-embeddings 64 --micro-batch-size 2 --global-batch-size 8 --vocab-size 512 "
    "--untie-embeddings-and-output-weights --disable-bias-linear --lr 1e-3 "
    "--transformer-impl local --tokenizer-type NullTokenizer --make-vocab-size-divisible-by 1 "
    "--attention-dropout 0 --hidden-dropout 0"
).split()
EXPERTS = (
    "--num-experts 4 --moe-router-topk 2 --moe-token-dispatcher-type alltoall "
    "--moe-router-load-balancing-type none"
).split()
LAYOUTS = {
    "dense, dp 2": ({"pp": 1, "ep": 1}, []),
    "dense, SwiGLU, pp 2": ({"pp": 2, "ep": 1}, ["--swiglu"]),
    "experts, dp 2": ({"pp": 1, "ep": 1}, EXPERTS),
    "experts, ep 2": ({"pp": 1, "ep": 2}, EXPERTS),
    "experts, pp 2": ({"pp": 2, "ep": 1}, EXPERTS),
}
SKIP, RECORDED, AFTER = 4, 12, 8


class Run:
    """One profiled run: what it measured, and what a plan from its profile says."""

    def __init__(self, binaries: str, degrees: dict[str, int], extra: list[str]) -> None:
        job = [*JOB, *extra, "--train-iters", str(SKIP + RECORDED + AFTER)]
        job += ["--pipeline-model-parallel-size", str(degrees["pp"])]
        job += ["--expert-model-parallel-size", str(degrees["ep"])]
        with tempfile.TemporaryDirectory() as folder:
            options = ["--out", folder, "--skip", str(SKIP), "--iterations", str(RECORDED)]
            options += ["--bench-seconds", "12"]
            ended = run_job(["-m", "hapmoe_profiler", *options, SCRIPT, *job])
            if ended.codes != [0, 0]:
                sys.exit(ended.errors)
            # The last recorded iteration holds the benchmarks.
            recorded = ended.seconds(SKIP, SKIP + RECORDED - 1, processor=True)
            others = ended.seconds(SKIP + RECORDED, SKIP + RECORDED + AFTER, processor=True)
            self.recording = statistics.median(recorded) / statistics.median(others) - 1
            with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
                self.measured = json.load(file)["iteration_seconds"]
            self.predicted = self._plan(binaries, folder, degrees, job)

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    def _plan(self, binaries: str, folder: str, degrees: dict[str, int], job: list[str]) -> float:
        client = os.path.join(binaries, "hapmoe")
        (profile,) = glob.glob(os.path.join(folder, "profile-*.json"))
        with open(profile, encoding="utf-8") as file:
            name = json.load(file)["accelerator"]
        pool = {"name": "cpus", "accelerator": name, "nodes": 1, "accelerators_per_node": 2}
        cluster = os.path.join(folder, "cluster.json")
        with open(cluster, "w", encoding="utf-8") as file:
            json.dump({"pools": [pool]}, file)
        with support.server(binaries) as address:
            subprocess.run(
                [client, "profiles", "put", profile, "--server", address],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            command = [client, "plan", "--server", address, "--cluster", cluster, "-o", "json"]
            command += [
                "--tp",
                "1",
                "--cp",
                "1",
                "--pp",
                str(degrees["pp"]),
                "--ep",
                str(degrees["ep"]),
            ]
            command += ["--vp", "1", "--keep-recompute"]
            routing = os.path.join(folder, "router-stats.json")
            if os.path.exists(routing):
                command += ["--router-stats", routing]
            answer = subprocess.run(
                [*command, "--", *job], check=True, capture_output=True, text=True
            )
        return float(json.loads(answer.stdout)["answer"]["prediction"]["iteration_seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--limit", type=float, default=0.15)
    arguments = parser.parse_args()
    support.need_torch()
    binaries = os.path.abspath(arguments.binaries)
    failed = False
    print("Layout                Measured ms  Predicted ms   Error  Recording")
    for name, (degrees, extra) in LAYOUTS.items():
        runs: list[Run] = []
        while not runs or (len(runs) < 3 and abs(runs[0].error) > arguments.limit):
            run = Run(binaries, degrees, extra)
            runs.append(run)
            print(
                f"{name:20}  {run.measured * 1e3:11.1f}  {run.predicted * 1e3:12.1f}  "
                f"{run.error:+6.1%}  {run.recording:+9.1%}",
                flush=True,
            )
        error = statistics.median(abs(run.error) for run in runs)
        if error > arguments.limit:
            print(f"{name}: off by {error:.1%}, more than {arguments.limit:.0%}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
