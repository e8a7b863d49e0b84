"""Timing small programs on the device of a job, without touching the job.

They draw from a generator of their own, so that the job's random numbers are what they would have
been. What fails or does not fit is left out. Each time is the median over several blocks of calls
that walk over as many operands as the rank has layers, as the job does: caches then hold what they
hold in the job.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from . import log
from .device import Device
from .job import degree, precision

_BLOCKS = 5
_LEAST_BLOCK_SECONDS = 0.004
_MAX_CALLS = 200
_MAX_COPIES = 8
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

Call = Callable[[int], Any]


class Timer:
    """What all benchmarks of one rank share: operands, a clock, and the end of their time."""

    def __init__(self, device: Device, job: dict[str, Any], end: float) -> None:
        """`end`: when no benchmark begins any more, in time.monotonic()."""
        self._device = device
        self._job = job
        self._end = end
        self._torch_device = device.torch_device()
        self._dtype = _DTYPES[precision(job)]
        self._element = torch.empty((), dtype=self._dtype).element_size()
        self._generator = torch.Generator(device=self._torch_device)
        self._generator.manual_seed(20)
        layers = int(job["num_layers"] or 1) // degree(job, "pipeline_model_parallel_size")
        self._copies = max(1, min(_MAX_COPIES, layers))

    def _time(self, call: Call) -> float:
        """Seconds of one call."""
        for index in range(self._copies + 1):
            call(index)
        self._device.synchronize()
        begin = time.perf_counter()
        call(0)
        self._device.synchronize()
        once = max(time.perf_counter() - begin, 1e-7)
        calls = int(min(_MAX_CALLS, max(1, _LEAST_BLOCK_SECONDS / once)))
        calls = max(calls, min(self._copies, 4))
        blocks = []
        index = 0
        for _ in range(_BLOCKS):
            first = self._device.mark()
            for _ in range(calls):
                call(index)
                index += 1
            last = self._device.mark()
            self._device.synchronize()
            blocks.append(self._device.seconds(first, last) / calls)
        return statistics.median(blocks)

    def _guard(self, name: str, function: Callable[[], Any]) -> Any:
        if time.monotonic() >= self._end:
            return None
        try:
            return function()
        except Exception as error:
            log.once(f"the benchmark of {name} failed: {type(error).__name__}: {error}")
            return None
        finally:
            self._device.release()

    def _fits(self, size: float) -> bool:
        return size <= self._device.free_bytes()

    def _copies_of(self, size: float) -> int:
        """As many operands of `size` bytes as the rank has layers, or as fit; 0: not one does."""
        return int(min(self._copies, self._device.free_bytes() // max(size, 1.0)))

    def _random(self, *size: int, grad: bool = False) -> torch.Tensor:
        tensor = torch.empty(*size, dtype=self._dtype, device=self._torch_device)
        tensor.normal_(generator=self._generator)
        return tensor.requires_grad_(grad)

    def _many(self, count: int, *size: int) -> list[torch.Tensor]:
        return [self._random(*size) for _ in range(count)]
