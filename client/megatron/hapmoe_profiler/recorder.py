"""What a few training steps took: spans, layers, routing and memory of one rank."""

from __future__ import annotations

import collections
import time
from typing import Any, Optional

import torch

from . import log
from .device import Device, Mark

# The names of phases, as they appear in the files.
ITERATION = "iteration"
FORWARD = "forward"
BACKWARD = "backward"
PIPELINE = "pipeline"
GRADIENT_SYNC = "gradient_sync"
PARAMETER_GATHER = "parameter_gather"
OPTIMIZER = "optimizer"
LAYER = "layer."  # And the layer's number.

_MAX_PASSES = 4096  # Of one layer in one iteration, whose imbalance is kept.


class _Span:
    """One open interval of one phase."""

    __slots__ = ("key", "begin", "host_begin")

    def __init__(self, key: str, begin: Optional[Mark]) -> None:
        self.key = key
        self.begin = begin
        self.host_begin = time.perf_counter()


class Recorder:
    """Collects one iteration at a time between begin_iteration() and end_iteration(). Outside of
    that every call returns at once. Not thread-safe beyond what autograd's threads do: they run
    while the thread that called backward waits."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.recording = False
        self.iterations: list[dict[str, Any]] = []
        self._depth: collections.Counter[str] = collections.Counter()
        self._closed: list[tuple[str, Mark, Mark]] = []
        self._host: dict[str, float] = {}
        self._memory: dict[str, dict[str, int]] = {}
        self._counts: dict[int, Any] = {}  # Layer number -> tokens of each expert, on the device.
        self._passes: dict[int, list[Any]] = {}  # Layer number -> imbalance of each pass.
        self._kinds: dict[int, str] = {}
        self._begin: Optional[_Span] = None
        self._layers = 0  # Passes through layers that are under way.

    # --- Iterations ---

    def begin_iteration(self) -> None:
        """Starts to record."""
        self._reset()
        self.device.synchronize()
        self.recording = True
        self._begin = _Span(ITERATION, self.device.mark())

    def end_iteration(self) -> None:
        """Waits for the device, and keeps the iteration. Drops it where its own span is not whole."""
        if not self.recording or self._begin is None:
            return
        self.recording = False
        end = self.device.mark()
        self.device.synchronize()
        if self._begin.begin is None or end is None:
            return
        self._closed.append((ITERATION, self._begin.begin, end))
        self.iterations.append(self._summary())
        marks = [mark for _, begin, end in self._closed for mark in (begin, end)]
        self._closed = []
        self.device.recycle(marks)

    def drop_iteration(self) -> None:
        """Forgets what was recorded since begin_iteration()."""
        self.recording = False
        self._reset()

    def _reset(self) -> None:
        self._depth.clear()
        self._closed = []
        self._host = {}
        self._memory = {}
        self._counts = {}
        self._passes = {}
        self._begin = None
        self._layers = 0

    def _summary(self) -> dict[str, Any]:
        seconds: dict[str, float] = collections.defaultdict(float)
        times: collections.Counter[str] = collections.Counter()
        for key, begin, end in self._closed:
            seconds[key] += self.device.seconds(begin, end)
            times[key] += 1
        return {
            "seconds": dict(seconds),
            "times": dict(times),
            "host_seconds": dict(self._host),
            "memory": {**self._memory, "end": self.device.memory()},
            "layer_kinds": {str(layer): kind for layer, kind in self._kinds.items()},
            "expert_tokens": {
                str(layer): [int(tokens) for tokens in counts.tolist()]
                for layer, counts in sorted(self._counts.items())
            },
            "pass_imbalance": {
                str(layer): sum(float(ratio) for ratio in ratios) / len(ratios)
                for layer, ratios in sorted(self._passes.items())
            },
        }

    # --- Spans ---

    def open(self, key: str) -> Optional[_Span]:
        """Begins a span; None where one of the same key is open, which then counts for both."""
        if not self.recording:
            return None
        self._depth[key] += 1
        if self._depth[key] > 1:
            return None
        return _Span(key, self.device.mark())

    def close(self, key: str, span: Optional[_Span]) -> None:
        """Ends what open() began."""
        if not self.recording:
            return
        self._depth[key] -= 1
        if span is None or span.begin is None:
            return
        end = self.device.mark()
        if end is None:
            return
        self._closed.append((key, span.begin, end))
        self._host[key] = self._host.get(key, 0.0) + time.perf_counter() - span.host_begin

    def inside(self, key: str) -> bool:
        """Whether a span of the key is open."""
        return self._depth[key] > 0

    def note_memory(self, phase: str) -> None:
        """Memory at the end of a phase; of several ends the fullest is kept."""
        if not self.recording:
            return
        now = self.device.memory()
        before = self._memory.get(phase)
        if before is None or before["allocated_bytes"] <= now["allocated_bytes"]:
            self._memory[phase] = now

    # --- Passes through modules ---

    def open_module(self, key: str) -> Optional[_Span]:
        """Begins a forward pass through a module. Inside a backward pass it is a recomputation."""
        if key.startswith(LAYER):
            self._layers += 1
        return self.open(key + (".recompute" if self.inside(BACKWARD) else ".forward"))

    def inside_module(self, key: str) -> bool:
        """Whether a pass through a module of the key is under way; of LAYER, through any layer."""
        if key == LAYER:
            return self._layers > 0
        return self.inside(key + ".forward") or self.inside(key + ".recompute")

    def close_module(self, key: str, span: Optional[_Span], inputs: Any, outputs: Any) -> None:
        """Ends it, and has autograd tell when the backward pass through the module begins (the
        gradient of its output is there) and ends (that of its input is)."""
        suffix = ".recompute" if self.inside(BACKWARD) else ".forward"
        self.close(key + suffix, span)
        if key.startswith(LAYER):
            self._layers -= 1
        if span is None or not torch.is_grad_enabled():
            return
        output, source = _differentiable(outputs), _differentiable(inputs)
        if output is None or source is None or output is source:
            return
        pending: list[Mark] = []

        def begin(_: torch.Tensor) -> None:
            try:
                if self.recording and not pending:
                    mark = self.device.mark()
                    if mark is not None:
                        pending.append(mark)
            except Exception as error:
                log.once(f"{key}.backward is not recorded: {error}")

        def finish(_: torch.Tensor) -> None:
            try:
                if self.recording and len(pending) == 1:
                    mark = self.device.mark()
                    if mark is not None:
                        self._closed.append((key + ".backward", pending[0], mark))
                        pending.append(mark)
            except Exception as error:
                log.once(f"{key}.backward is not recorded: {error}")

        output.register_hook(begin)
        source.register_hook(finish)

    def note_layer(self, layer: int, kind: str) -> None:
        """What a layer is: "dense" or "moe"."""
        self._kinds[layer] = kind

    # --- Routing ---

    def note_routing(self, layer: int, routing_map: torch.Tensor) -> None:
        """Counts the tokens of every expert in one pass. `routing_map` [tokens, experts] says which
        expert takes which token. Nothing is copied to the host before the iteration ends."""
        if not self.recording or self.inside(BACKWARD):
            return
        with torch.no_grad():
            counts = routing_map.detach().reshape(-1, routing_map.shape[-1]).sum(dim=0)
            if layer in self._counts:
                self._counts[layer] += counts
            else:
                self._counts[layer] = counts.clone()
            passes = self._passes.setdefault(layer, [])
            if len(passes) < _MAX_PASSES:
                loads = counts.float()
                passes.append(loads.max() / loads.mean().clamp(min=1e-9))


def _differentiable(value: Any) -> Optional[torch.Tensor]:
    """The first tensor that a gradient flows through."""
    if isinstance(value, torch.Tensor):
        return value if value.requires_grad else None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            found = _differentiable(item)
            if found is not None:
                return found
    return None
