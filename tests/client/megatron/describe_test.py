"""What a job says of itself, in the ways that frameworks keep it."""

import sys
import types
import unittest
from types import SimpleNamespace

import support
from hapmoe_profiler import job

SIZES = {
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "seq_length": 128,
    "micro_batch_size": 2,
}


class Parameter:
    def __init__(self, count: int, **attributes: object) -> None:
        self.requires_grad = True
        self.numel = lambda: count
        vars(self).update(attributes)


class Chunk:
    """A model chunk with parameters that all ranks share, experts, and frozen ones."""

    def __init__(self, config: object = None) -> None:
        self.config = config

    def parameters(self) -> list[Parameter]:
        return [
            Parameter(10),
            Parameter(5, allreduce=True),
            Parameter(7, allreduce=False),
            Parameter(100, requires_grad=False),
        ]


class DescribeTest(unittest.TestCase):
    def arguments(self, namespace: object) -> None:
        module = types.ModuleType("megatron.training.global_vars")
        module.get_args = lambda: namespace
        sys.modules[module.__name__] = module
        self.addCleanup(sys.modules.pop, module.__name__)

    def test_of_megatron_lm(self) -> None:
        self.arguments(SimpleNamespace(**SIZES, swiglu=True, bf16=True, fp8="hybrid"))
        found = job.describe((None, None, [Chunk()]), {})
        self.assertEqual({name: found[name] for name in SIZES}, SIZES)
        self.assertEqual((found["swiglu"], found["fp8"]), (True, "hybrid"))
        self.assertEqual((found["dense_parameters"], found["expert_parameters"]), (15, 7))
        self.assertEqual(job.precision(found), "bf16")

    def test_of_megatron_bridge(self) -> None:
        train = SimpleNamespace(micro_batch_size=2, global_batch_size=16)
        model = SimpleNamespace(
            num_layers=4,
            hidden_size=64,
            num_attention_heads=4,
            seq_length=128,
            gated_linear_unit=True,
            num_moe_experts=8,
            vocab_size=1000,
        )
        state = SimpleNamespace(cfg=SimpleNamespace(train=train, model=model))
        found = job.describe((), {"global_state": state, "model": [Chunk()]})
        self.assertEqual({name: found[name] for name in SIZES}, SIZES)
        self.assertEqual((found["num_experts"], found["padded_vocab_size"]), (8, 1000))
        self.assertTrue(found["swiglu"])

    def test_a_job_without_sizes_is_not_described(self) -> None:
        config = SimpleNamespace(num_layers=4, hidden_size=64, num_attention_heads=4)
        self.assertEqual(job.describe(([Chunk(config)],), {}), {})

    def test_arguments_that_are_not_there_yet(self) -> None:
        def not_yet() -> None:
            raise AssertionError("args is not initialized")

        module = types.ModuleType("megatron.training.global_vars")
        module.get_args = not_yet
        sys.modules[module.__name__] = module
        self.addCleanup(sys.modules.pop, module.__name__)
        self.assertEqual(job.describe((), {}), {})


if __name__ == "__main__":
    support.main()
