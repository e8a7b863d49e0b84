"""The profiler of one process: waits for the job's modules, hooks them, records, and goes."""

from __future__ import annotations

import atexit
import collections
import os
import sys
import types
from typing import TYPE_CHECKING, Any, Optional

from . import log
from .imports import ImportHook
from .patches import Patch, Patches
from .points import MODULE, POINTS, ROUTING, SPAN, STEP, Point
from .settings import Settings

if TYPE_CHECKING:
    from .recorder import Recorder
    from .report import Place

_active: Optional[Profiler] = None


def start_from_environment() -> bool:
    """Starts the profiler of this process where HAPMOE_PROFILE asks for it. ValueError where a
    variable has no sense. Imports neither torch nor anything of the job."""
    settings = Settings.from_environment()
    if settings is None:
        return False
    start(settings)
    return True


def start(settings: Settings) -> Profiler:
    """Starts the profiler of this process; the one at work, if there is one."""
    global _active
    if _active is None:
        _active = Profiler(settings)
        _active.install()
    return _active


class Profiler:
    """Hooks the points of the job as its modules are imported. After the recorded iterations, or
    at the end of the process, it writes this rank's file and takes everything away."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.steps = 0
        self._patches = Patches()
        self._recorder: Optional[Recorder] = None
        self._job: dict[str, Any] = {}
        self._place: Optional[Place] = None
        self._finished = False
        self._process = os.getpid()
        self._found: set[str] = set()
        points: dict[str, list[Point]] = collections.defaultdict(list)
        for point in POINTS:
            points[point.module].append(point)
        self._hook = ImportHook({name: self._hooker(group) for name, group in points.items()})

    def install(self) -> None:
        """Waits for the modules of the job."""
        self._hook.install()
        atexit.register(self._at_exit)

    def remove(self) -> None:
        """Takes all hooks away."""
        self._hook.remove()
        self._patches.remove()
        atexit.unregister(self._at_exit)

    # --- Hooking ---

    def _hooker(self, points: list[Point]) -> Any:
        def hook(module: types.ModuleType) -> None:
            if self._finished:
                return
            for point in points:
                try:
                    self._hook_point(module, point)
                except Exception as error:
                    log.once(f"{point.module}.{point.attribute} is not recorded: {error}")
            for what in dict.fromkeys(point.what for point in points):
                if what not in self._found:
                    log.once(f"{module.__name__} has no known point to measure {what} at")

        return hook

    def _hook_point(self, module: types.ModuleType, point: Point) -> None:
        owner: Any = module
        *path, attribute = point.attribute.split(".")
        for name in path:
            owner = getattr(owner, name, None)
            if owner is None:
                return
        name = f"{point.module}.{point.attribute}"
        if self._patches.add(self._patch(name, point), owner, attribute):
            self._found.add(point.what)

    def _patch(self, name: str, point: Point) -> Patch:
        if point.role == STEP:
            return Patch(name, self._whole(self._before_step), self._whole(self._after_step))
        if point.role == SPAN:
            return Patch(name, *self._span(point.what))
        if point.role == MODULE:
            return Patch(name, *self._module(point.what))
        assert point.role == ROUTING
        return Patch(name, *self._routing(point.what))

    def _whole(self, function: Any) -> Any:
        """A hook that all others depend on: they go with it when it fails."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception:
                self._finished = True
                if self._recorder is not None:
                    self._recorder.drop_iteration()
                self.remove()
                raise

        return call

    # --- What the hooks do ---

    def _before_step(self, args: tuple, kwargs: dict) -> Any:
        if os.getpid() != self._process or self._finished:
            return None
        if self._recorder is None:
            from .device import Device
            from .recorder import Recorder

            self._recorder = Recorder(Device())
        self.steps += 1
        if self.steps > self.settings.skip:
            if self._place is None:
                from .report import begin

                self._place = begin(self.settings)
            self._recorder.begin_iteration()
        return None

    def _after_step(self, _: Any, result: Any, args: tuple, kwargs: dict) -> None:
        recorder = self._recorder
        if recorder is None or self._finished:
            return
        if result is None:  # It raised: the job is ending, or tries again.
            recorder.drop_iteration()
            return
        recorder.end_iteration()
        if len(recorder.iterations) == 1:
            from .job import describe

            self._job = describe(args, kwargs)
            if self._job:
                kinds = recorder.iterations[0]["layer_kinds"].values()
                self._job["layer_kinds"] = sorted(set(kinds))
        if len(recorder.iterations) >= self.settings.iterations:
            self._finish()

    def _span(self, what: str) -> tuple[Any, Any]:
        def before(args: tuple, kwargs: dict) -> Any:
            return self._recorder.open(what) if self._recorder is not None else None

        def after(span: Any, result: Any, args: tuple, kwargs: dict) -> None:
            if self._recorder is not None and self._recorder.recording:
                self._recorder.close(what, span)
                if what in ("forward", "backward", "optimizer") and span is not None:
                    self._recorder.note_memory(what)

        return before, after

    def _module(self, what: str) -> tuple[Any, Any]:
        def before(args: tuple, kwargs: dict) -> Any:
            if self._recorder is None or not self._recorder.recording:
                return None
            key = _module_key(what, args, kwargs, self._recorder)
            return (key, self._recorder.open_module(key)) if key else None

        def after(token: Any, result: Any, args: tuple, kwargs: dict) -> None:
            if token is not None and self._recorder is not None:
                inputs = (args[1:], kwargs)
                self._recorder.close_module(token[0], token[1], inputs, result)

        return before, after

    def _routing(self, what: str) -> tuple[Any, Any]:
        open_span, close_span = self._span(what)

        def after(span: Any, result: Any, args: tuple, kwargs: dict) -> None:
            close_span(span, result, args, kwargs)
            decoder = not getattr(args[0], "is_mtp_layer", False)
            if self._recorder is not None and decoder and isinstance(result, tuple):
                layer = int(getattr(args[0], "layer_number", None) or 0)
                self._recorder.note_routing(layer, result[1])

        return open_span, after

    # --- The end ---

    def _finish(self) -> None:
        """Runs the benchmarks, writes this rank's file and takes everything away, whatever fails."""
        self._finished = True
        try:
            self.remove()
            from .report import finish

            assert self._recorder is not None and self._place is not None
            finish(self.settings, self._recorder, self._place, self._job)
        except Exception as error:
            log.once(f"nothing was written: {type(error).__name__}: {error}")
        finally:
            self._recorder = None

    def _at_exit(self) -> None:
        """What was recorded when a job ends before its time, without benchmarks."""
        if os.getpid() != self._process or self._finished:
            return
        self._finished = True
        try:
            self.remove()
            if self._recorder is not None and self._recorder.iterations and self._place is not None:
                from .report import write_rank

                write_rank(self.settings, self._recorder, self._place, self._job, {})
            elif "torch" in sys.modules and self.steps > 0:
                log.once(f"the job ended after {self.steps} steps; none was recorded")
            elif "megatron" in sys.modules:
                log.once("no training step was seen; nothing was recorded")
        except Exception as error:
            log.once(f"nothing was written: {type(error).__name__}: {error}")


def _module_key(what: str, args: tuple, kwargs: dict, recorder: Recorder) -> str:
    """What a pass through a module counts as: "layer.7" for a layer, which is noted with its kind;
    "linear.MxNxK" for a product inside a layer and "outer_linear.MxNxK" outside of one; nothing for
    products inside of experts, which differ from pass to pass; the name itself for the others."""
    if what == "layer" and getattr(args[0], "is_mtp_layer", False):
        return "prediction_layer"  # Its number is not one of the decoder's.
    if what == "layer":
        number = int(getattr(args[0], "layer_number", None) or 0)
        experts = hasattr(getattr(args[0], "mlp", None), "router")
        recorder.note_layer(number, "moe" if experts else "dense")
        return f"layer.{number}"
    if what != "linear":
        return what
    if recorder.inside_module("experts") or recorder.inside_module("shared_experts"):
        return ""
    weight = kwargs.get("weight")
    if weight is None and len(args) > 2:
        weight = args[2]
    if weight is None:
        weight = getattr(args[0], "weight", None)
    tensor = args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if weight is None or getattr(weight, "dim", lambda: 0)() != 2:
        return ""
    n, k = weight.shape
    prefix = "linear" if recorder.inside_module("layer.") else "outer_linear"
    return f"{prefix}.{tensor.numel() // max(1, tensor.shape[-1])}x{n}x{k}"
