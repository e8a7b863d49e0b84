"""The profiler around Megatron-LM itself: wants a checkout in MEGATRON_LM, a PyTorch of its age and
one accelerator, and is not run without them."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

support.need_torch()

import torch

TRAIN = (
    "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 256 "
    "--max-position-embeddings 256 --micro-batch-size 2 --global-batch-size 8 --train-iters 8 "
    "--lr 1e-4 --lr-decay-style constant --bf16 --mock-data --tokenizer-type NullTokenizer "
    "--vocab-size 1024 --transformer-impl local --no-persist-layer-norm "
    "--no-gradient-accumulation-fusion --no-masked-softmax-fusion --eval-iters 0 --log-interval 1 "
    "--untie-embeddings-and-output-weights --disable-bias-linear"
).split()
EXPERTS = "--num-experts 4 --moe-router-topk 2 --moe-token-dispatcher-type alltoall".split()


class MegatronLmTest(unittest.TestCase):
    def setUp(self) -> None:
        self.checkout = os.environ.get("MEGATRON_LM", "")
        if not self.checkout:
            self.skipTest("MEGATRON_LM names no checkout of Megatron-LM")
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4):
            self.skipTest(f"PyTorch {torch.__version__} is too old for Megatron-LM")
        npu = getattr(torch, "npu", None)
        if not torch.cuda.is_available() and not (npu is not None and npu.is_available()):
            self.skipTest("Megatron-LM trains on accelerators, and there is none")

    def profiled(self, *extra: str) -> tuple[dict, dict, dict]:
        """The first rank's file, the profile, and the report of a run."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "hapmoe_profiler", "--out", folder, "--skip", "2"]
            command += ["--iterations", "3", "--bench-seconds", "20"]
            command += [os.path.join(self.checkout, "pretrain_gpt.py"), *TRAIN, *extra]
            answer = subprocess.run(
                command,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join((support.PACKAGE, self.checkout)),
                    "RANK": "0",
                    "LOCAL_RANK": "0",
                    "WORLD_SIZE": "1",
                    "LOCAL_WORLD_SIZE": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(support.free_port()),
                    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
                },
                capture_output=True,
                text=True,
                timeout=600,
            )
            self.assertEqual(answer.returncode, 0, answer.stderr[-4000:])
            (profile,) = glob.glob(os.path.join(folder, "profile-*.json"))
            found = []
            for path in (os.path.join(folder, "rank-00000.json"), profile):
                with open(path, encoding="utf-8") as file:
                    found.append(json.load(file))
            with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
                return found[0], found[1], json.load(file)

    def test_dense(self) -> None:
        rank, profile, report = self.profiled()
        times = rank["iterations"][0]["times"]
        # 4 micro-batches.
        for phase in ("forward", "backward", "layer.1.forward", "layer.2.backward"):
            self.assertEqual(times.get(phase), 4, phase)
        self.assertEqual(profile["layers"][-1]["hidden_size"], 256)
        self.assertGreater(report["stages"][0]["peak_allocated_bytes"], 2**20)

    def test_experts(self) -> None:
        rank, profile, report = self.profiled(*EXPERTS)
        tokens = rank["iterations"][0]["expert_tokens"]
        # 8 sequences of 256 tokens to 2 experts each.
        self.assertEqual(
            {layer: sum(counts) for layer, counts in tokens.items()}, {"1": 4096, "2": 4096}
        )
        kinds = {table["kind"] for table in profile["tables"]}
        self.assertIn("OPERATION_KIND_GROUPED_GEMM", kinds)
        self.assertGreaterEqual(report["router_imbalance"], 1)


if __name__ == "__main__":
    support.main()
