"""Recorder: spans, passes through modules and routing, on a clock that ticks once a look."""

import sys
import types
import unittest

import support

support.need_torch()

import torch
import torch.utils.checkpoint
from hapmoe_profiler.device import Device
from hapmoe_profiler.recorder import Recorder


class Clock:
    """A device whose time goes on by one second with every mark."""

    def __init__(self) -> None:
        self.now = 0
        self.capturing = False

    def mark(self):
        if self.capturing:
            return None
        self.now += 1
        return self.now

    def seconds(self, begin: int, end: int) -> float:
        return float(end - begin)

    def recycle(self, marks: list) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def memory(self) -> dict:
        return {"allocated_bytes": self.now, "peak_allocated_bytes": self.now}


class RecorderTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.recorder = Recorder(self.clock)

    def iteration(self) -> dict:
        self.recorder.end_iteration()
        return self.recorder.iterations[-1]

    def run_module(self, key: str, function, tensor: torch.Tensor) -> torch.Tensor:
        """A pass as the hooks of a module see it."""
        span = self.recorder.open_module(key)
        output = function(tensor)
        self.recorder.close_module(key, span, (tensor,), output)
        return output

    def test_adds_up_spans(self) -> None:
        self.recorder.begin_iteration()  # 1
        for _ in range(2):
            span = self.recorder.open("forward")  # 2, 4
            self.recorder.close("forward", span)  # 3, 5
        found = self.iteration()  # 6
        self.assertEqual(found["seconds"], {"forward": 2.0, "iteration": 5.0})
        self.assertEqual(found["times"], {"forward": 2, "iteration": 1})

    def test_the_outermost_of_equal_spans_counts(self) -> None:
        self.recorder.begin_iteration()  # 1
        outer = self.recorder.open("optimizer")  # 2
        inner = self.recorder.open("optimizer")
        self.recorder.close("optimizer", inner)
        self.recorder.close("optimizer", outer)  # 3
        self.assertEqual(self.iteration()["seconds"]["optimizer"], 1.0)

    def test_records_nothing_between_iterations(self) -> None:
        self.recorder.close("forward", self.recorder.open("forward"))
        self.recorder.note_memory("forward")
        self.recorder.note_routing(1, torch.ones(2, 2))
        self.recorder.begin_iteration()
        found = self.iteration()
        self.assertEqual(list(found["seconds"]), ["iteration"])
        self.assertEqual((list(found["memory"]), found["expert_tokens"]), (["end"], {}))

    def test_what_a_graph_captures_is_left_out(self) -> None:
        self.recorder.begin_iteration()
        self.clock.capturing = True
        self.recorder.close("forward", self.recorder.open("forward"))
        self.clock.capturing = False
        self.assertEqual(list(self.iteration()["seconds"]), ["iteration"])

    def test_backward_passes_go_from_output_to_input(self) -> None:
        self.recorder.begin_iteration()  # 1
        tensor = torch.ones(2, requires_grad=True)
        first = self.run_module("layer.1", lambda x: 2 * x, tensor)  # 2, 3
        second = self.run_module("layer.2", lambda x: x * x, first)  # 4, 5
        second.sum().backward()  # layer.2: 6, 7; layer.1: 8, 9, in whatever order of 7 and 8.
        self.assertEqual(tensor.grad.tolist(), [8.0, 8.0])
        found = self.iteration()
        for layer in ("layer.1", "layer.2"):
            self.assertEqual(found["times"][layer + ".backward"], 1)
            self.assertGreaterEqual(found["seconds"][layer + ".backward"], 1.0)
        self.assertFalse(self.recorder.inside_module("layer."))

    def test_recomputation_is_no_forward_pass(self) -> None:
        self.recorder.begin_iteration()
        tensor = torch.ones(2, requires_grad=True)

        def layer(x: torch.Tensor) -> torch.Tensor:
            return self.run_module("layer.1", lambda y: 3 * y, x)

        output = torch.utils.checkpoint.checkpoint(layer, tensor)
        span = self.recorder.open("backward")
        output.sum().backward()
        self.recorder.close("backward", span)
        self.assertEqual(tensor.grad.tolist(), [3.0, 3.0])
        times = self.iteration()["times"]
        self.assertEqual(
            {key: times[key] for key in times if key.startswith("layer")},
            {"layer.1.forward": 1, "layer.1.recompute": 1, "layer.1.backward": 1},
        )

    def test_passes_without_gradients_have_no_backward_pass(self) -> None:
        self.recorder.begin_iteration()
        with torch.no_grad():
            self.run_module("experts", lambda x: 2 * x, torch.ones(2))
        self.run_module("experts", lambda x: x, torch.ones(2, requires_grad=True))
        self.assertEqual(self.iteration()["times"]["experts.forward"], 2)

    def test_counts_tokens_of_experts(self) -> None:
        self.recorder.begin_iteration()
        first = torch.tensor([[1, 1, 0], [1, 0, 1]], dtype=torch.bool)
        self.recorder.note_routing(7, first)  # 2, 1, 1: the most is 1.5 times the mean.
        self.recorder.note_routing(7, ~first)  # 0, 1, 1: as well.
        span = self.recorder.open("backward")
        self.recorder.note_routing(7, first)  # A recomputation.
        self.recorder.close("backward", span)
        found = self.iteration()
        self.assertEqual(found["expert_tokens"], {"7": [2, 2, 2]})
        self.assertAlmostEqual(found["pass_imbalance"]["7"], 1.5)

    def test_forgets_an_iteration_that_was_broken_off(self) -> None:
        self.recorder.begin_iteration()
        self.recorder.open("forward")
        self.recorder.drop_iteration()
        self.assertEqual(self.recorder.iterations, [])
        self.recorder.begin_iteration()
        self.recorder.close("forward", self.recorder.open("forward"))
        self.assertEqual(self.iteration()["times"]["forward"], 1)


class FakeEvent:
    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        FakeEvent.made += 1
        self.time = 0.0

    def record(self) -> None:
        FakeModule.now += 2.0
        self.time = FakeModule.now

    def elapsed_time(self, other) -> float:
        return other.time - self.time  # Milliseconds.


class FakeModule(types.ModuleType):
    """What torch's module of an accelerator offers, as CUDA, ROCm and Ascend builds have it."""

    now = 0.0
    Event = FakeEvent

    def __getattr__(self, name: str):
        answers = {
            "is_available": True,
            "synchronize": None,
            "memory_allocated": 10,
            "memory_reserved": 20,
            "max_memory_allocated": 30,
            "max_memory_reserved": 40,
            "mem_get_info": (100, 200),
            "empty_cache": None,
            "current_device": 0,
            "get_device_name": "Ascend910B3",
            "get_device_properties": types.SimpleNamespace(total_memory=64, cube_core_num=20),
        }
        if name not in answers:
            raise AttributeError(name)
        return lambda *_: answers[name]


class DeviceTest(unittest.TestCase):
    def setUp(self) -> None:
        if torch.cuda.is_available():
            self.skipTest("this machine has an accelerator of its own")
        torch.npu = sys.modules["torch.npu"] = FakeModule("torch.npu")
        self.addCleanup(sys.modules.pop, "torch.npu")
        self.addCleanup(delattr, torch, "npu")

    def test_speaks_to_the_module_of_the_accelerator(self) -> None:
        device = Device()
        self.assertEqual((device.kind, device.asynchronous), ("npu", True))
        first, second = device.mark(), device.mark()
        self.assertAlmostEqual(device.seconds(first, second), 0.002)
        made = FakeEvent.made
        device.recycle([first, second])
        device.mark(), device.mark()
        self.assertEqual(FakeEvent.made, made)
        self.assertEqual(
            device.memory(),
            {
                "allocated_bytes": 10,
                "reserved_bytes": 20,
                "peak_allocated_bytes": 30,
                "peak_reserved_bytes": 40,
            },
        )
        self.assertAlmostEqual(device.free_bytes(), 0.8 * 100 + 0.4 * 10)
        facts = device.facts()
        self.assertEqual(
            (facts["name"], facts["vendor"], facts["multiprocessors"]),
            ("Ascend910B3", "Huawei", 20),
        )

    def test_records_no_event_while_a_graph_is_captured(self) -> None:
        torch.npu.is_current_stream_capturing = lambda: True
        self.assertIsNone(Device().mark())


if __name__ == "__main__":
    support.main()
