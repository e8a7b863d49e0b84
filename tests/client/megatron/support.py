"""Shared by the tests: paths, and running the stand-in job with its ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PACKAGE = os.path.join(ROOT, "client", "megatron")
SWITCH = os.path.join(PACKAGE, "switch")
STANDIN = os.path.join(HERE, "standin")
SKIPPED = 77  # What ctest takes as "not run".

sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True

JOB = (
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --vocab-size 128 "
    "--untie-embeddings-and-output-weights --disable-bias-linear --lr 1e-3 "
    "--transformer-impl local --tokenizer-type NullTokenizer --make-vocab-size-divisible-by 1 "
    "--attention-dropout 0 --hidden-dropout 0"
).split()
EXPERTS = (
    "--num-experts 4 --moe-router-topk 2 --expert-model-parallel-size 2 "
    "--moe-token-dispatcher-type alltoall --moe-router-load-balancing-type none"
).split()


def main() -> None:
    """Runs the tests of the calling module; not run where it skips all of them."""
    result = unittest.main(verbosity=2, exit=False).result
    if result.wasSuccessful() and result.testsRun == len(result.skipped) > 0:
        sys.exit(SKIPPED)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


def need_torch() -> None:
    """Ends the process as not run where torch or gloo is missing."""
    try:
        import torch.distributed as dist

        if not dist.is_available():
            raise ImportError("torch without distributed")
    except ImportError as error:
        print(f"not run: {error}; Debian's package is python3-torch")
        sys.exit(SKIPPED)


def environment(*paths: str, **variables: str) -> dict[str, str]:
    """The process's environment without what would switch the profiler on, and PYTHONPATH."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAPMOE_", "PYTHON"))}
    kept.update(PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    kept.update(variables)
    return kept


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_job(
    command: list[str], ranks: int = 2, paths: tuple[str, ...] = (), **variables: str
) -> list[subprocess.Popen]:
    """Starts `command`, which follows the interpreter, as all ranks of a job."""
    port = str(free_port())
    processes = []
    for rank in range(ranks):
        processes.append(
            subprocess.Popen(
                [sys.executable, *command],
                env=environment(
                    *(paths or (PACKAGE, STANDIN)),
                    RANK=str(rank),
                    LOCAL_RANK=str(rank),
                    WORLD_SIZE=str(ranks),
                    LOCAL_WORLD_SIZE=str(ranks),
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=port,
                    **variables,
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


class Ended:
    """A job that has ended: lines of all ranks, in order of rank."""

    def __init__(self, processes: list[subprocess.Popen], seconds: float = 240) -> None:
        self.codes: list[int] = []
        self.errors = ""
        self.output = ""
        self.lines: list[list[str]] = []
        try:
            for process in processes:
                out, error = process.communicate(timeout=seconds)
                self.codes.append(process.returncode)
                self.errors += error
                self.output += out
                self.lines += [line.split() for line in out.splitlines() if " 0x" in line]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def losses(self) -> list[tuple[str, ...]]:
        """(rank, iteration, loss, gradient norm) of each iteration, in all their bits."""
        return sorted(tuple(line[:4]) for line in self.lines)

    def seconds(self, first: int, last: int, processor: bool = False) -> list[float]:
        """How long the iterations from `first` to before `last` took on rank 0, or what they took
        of its processor."""
        column = 5 if processor else 4
        times = {int(line[1]): float(line[column]) for line in self.lines if line[0] == "0"}
        return [times[i] for i in range(first, last)]


def run_job(command: list[str], **options: object) -> Ended:
    """Starts a job and waits for it."""
    return Ended(start_job(command, **options))  # type: ignore[arg-type]


SCRIPT = os.path.join(STANDIN, "pretrain_gpt.py")


@contextlib.contextmanager
def server(binaries: str) -> Iterator[str]:
    """A hapmoed of a build's folder of programs, with what is built in; its address. It must leave
    with 0 when asked to."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            os.path.join(binaries, "hapmoed"),
            f"--listen={address}",
            f"--metrics_listen=127.0.0.1:{free_port()}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1]))) == 0:
                    break
            time.sleep(0.1)
        else:
            raise AssertionError("hapmoed does not listen")
        yield address
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, "hapmoed did not leave with 0"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
