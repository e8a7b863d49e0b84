"""The accelerator as torch sees it: time, memory and facts, alike on CUDA, ROCm, Ascend and CPU.

ROCm builds call their devices "cuda", Ascend builds "npu". Needs torch, which the job has imported
by the time that this module is.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from typing import Any, Optional

import torch

from .names import profile_name

# A point in time: seconds on the CPU, an event on the stream of an accelerator.
Mark = Any


def _module_of(kind: str) -> Any:
    find = getattr(torch, "get_device_module", None)
    if find is not None:
        return find(kind)
    return getattr(torch, kind, None)


def device_kind() -> str:
    """ "npu", "cuda", another type that torch calls the current accelerator, or "cpu"."""
    for kind in ("npu", "cuda"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            return kind
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return accelerator.current_accelerator().type
    return "cpu"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


class Device:
    """The device of this process."""

    def __init__(self) -> None:
        self.kind = device_kind()
        self.module = None if self.kind == "cpu" else _module_of(self.kind)
        self._free: list[Any] = []  # Events that can be used again.

    @property
    def asynchronous(self) -> bool:
        """Whether the host goes on while the device works."""
        return self.module is not None

    def torch_device(self) -> torch.device:
        """Where this process puts its tensors."""
        if self.module is None:
            return torch.device("cpu")
        return torch.device(self.kind, self.module.current_device())

    # --- Time ---

    def mark(self) -> Optional[Mark]:
        """Now, in the order of the current stream. None while a graph is being captured, whose
        replay would not pass here."""
        if self.module is None:
            return time.perf_counter()
        capturing = getattr(self.module, "is_current_stream_capturing", None)
        if capturing is not None and capturing():
            return None
        event = self._free.pop() if self._free else self.module.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Mark, end: Mark) -> float:
        """Time between two marks. Call synchronize() before."""
        if self.module is None:
            return float(end - begin)
        return float(begin.elapsed_time(end)) * 1e-3

    def recycle(self, marks: list[Mark]) -> None:
        """Takes marks back that nobody will ask about any more."""
        if self.module is not None:
            self._free.extend(marks)

    def synchronize(self) -> None:
        """Waits for everything that was issued."""
        if self.module is not None:
            self.module.synchronize()

    # --- Memory ---

    def memory(self) -> dict[str, int]:
        """Bytes in use and held by the allocator, now and at most so far. On the CPU those of the
        process: what is resident stands for both."""
        if self.module is None:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            resident = peak
            try:
                with open("/proc/self/statm", encoding="ascii") as file:
                    resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, ValueError, IndexError):
                pass
            return {
                "allocated_bytes": resident,
                "reserved_bytes": resident,
                "peak_allocated_bytes": peak,
                "peak_reserved_bytes": peak,
            }
        return {
            "allocated_bytes": int(self.module.memory_allocated()),
            "reserved_bytes": int(self.module.memory_reserved()),
            "peak_allocated_bytes": int(self.module.max_memory_allocated()),
            "peak_reserved_bytes": int(self.module.max_memory_reserved()),
        }

    def free_bytes(self) -> float:
        """What benchmarks may take without coming near the end of the memory."""
        if self.module is None:
            try:
                pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            except (OSError, ValueError):
                return 0.0
            return 0.5 * pages / max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))
        query = getattr(self.module, "mem_get_info", None)
        if query is None:
            return 0.0
        free, _ = query()
        # Of what the allocator holds without use some may be too small a piece.
        held = self.module.memory_reserved() - self.module.memory_allocated()
        return 0.8 * float(free) + 0.4 * float(held)

    def release(self) -> None:
        """Gives the allocator's unused memory back."""
        if self.module is not None:
            self.module.empty_cache()

    # --- Facts ---

    def facts(self) -> dict[str, Any]:
        """Name, vendor, capacity and the like, as far as torch tells."""
        if self.module is None:
            ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return {
                "kind": "cpu",
                "name": profile_name("CPU " + _cpu_name()),
                "vendor": "CPU",
                "architecture": platform.machine(),
                "capacity_bytes": total // ranks,
                "multiprocessors": torch.get_num_threads(),
            }
        properties = self.module.get_device_properties(self.module.current_device())
        vendor, architecture = "NVIDIA", ""
        if self.kind == "npu":
            vendor = "Huawei"
        elif getattr(torch.version, "hip", None):
            vendor = "AMD"
            architecture = str(getattr(properties, "gcnArchName", "")).split(":")[0]
        elif self.kind != "cuda":
            vendor = self.kind
        else:
            architecture = f"sm_{properties.major}{properties.minor}"
        cores = getattr(properties, "multi_processor_count", 0) or getattr(
            properties, "cube_core_num", 0
        )
        return {
            "kind": self.kind,
            "name": profile_name(str(self.module.get_device_name(self.module.current_device()))),
            "vendor": vendor,
            "architecture": architecture,
            "capacity_bytes": int(properties.total_memory),
            "multiprocessors": int(cores),
        }
