"""Micro-benchmarks on one rank: products, grouped products, attention and streams of the job.

They draw from a generator of their own, so that the job's random numbers are what they would have
been. What fails or does not fit is left out. Each time is the median over several blocks of calls
that walk over as many operands as the rank has layers, as the job does: caches then hold what they
hold in the job.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as functional

from . import log, shapes
from .device import Device
from .job import degree, precision
from .shapes import Shape

_BLOCKS = 5
_LEAST_BLOCK_SECONDS = 0.004
_MAX_CALLS = 200
_MAX_COPIES = 8
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# Weight gradients take so much longer than products of the same size (core/cost/compute_time.cc).
# The planner multiplies by it, so what was measured of a weight gradient is divided by it.
WEIGHT_GRADIENT_OVER_FORWARD = 1.045
# Traffic of a backward pass over that of the forward pass (core/model/operation_builder.h).
BACKWARD_TRAFFIC = 1.5

Call = Callable[[int], Any]


class Bench:
    """Runs benchmarks until their time is up, the job's own shapes first."""

    def __init__(self, device: Device, job: dict[str, Any], seconds: float) -> None:
        self._device = device
        self._job = job
        self._end = time.monotonic() + seconds
        self._torch_device = device.torch_device()
        self._dtype = _DTYPES[precision(job)]
        self._element = torch.empty((), dtype=self._dtype).element_size()
        self._generator = torch.Generator(device=self._torch_device)
        self._generator.manual_seed(20)
        layers = int(job["num_layers"] or 1) // degree(job, "pipeline_model_parallel_size")
        self._copies = max(1, min(_MAX_COPIES, layers))

    def run(self) -> dict[str, Any]:
        """{"gemm": [sample], "grouped_gemm": ..., "attention": ..., "attention_backward": ...,
        "streams": [stream], "kernel_seconds", "memory_bytes_per_second"}; a sample is
        {m, n, k, groups, seconds}, a stream {name, bytes, seconds, launches}, forward and backward
        pass together."""
        found: dict[str, Any] = {
            "precision": precision(self._job),
            "kernel_seconds": self._guard("a tiny operation", self._kernel_seconds),
            "memory_bytes_per_second": self._guard("a large addition", self._memory_rate),
            "streams": self._streams(),
            "gemm": [],
            "grouped_gemm": [],
            "attention": [],
            "attention_backward": [],
        }
        # In turn, so that whatever the time allows holds some of each kind.
        gemms = shapes.products(self._job)
        grouped = shapes.grouped_products(self._job)
        attentions = shapes.attentions(self._job)
        for index in range(max(len(gemms), len(grouped), len(attentions))):
            if index < len(gemms):
                found["gemm"] += self._product(gemms[index])
            if index < len(grouped):
                found["grouped_gemm"] += self._grouped_product(grouped[index])
            if index < len(attentions):
                forward, backward = self._attention(attentions[index])
                found["attention"] += forward
                found["attention_backward"] += backward
        return found

    # --- Timing ---

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

    # --- Products ---

    def _product(self, shape: Shape) -> list[dict[str, Any]]:
        m, n, k, _ = shape
        count = self._copies_of(self._element * (m * k + 2 * n * k + 2 * m * n))
        if count == 0:
            return []

        def run() -> list[dict[str, Any]]:
            inputs, weights = self._many(count, m, k), self._many(count, n, k)
            gradients = self._many(count, m, n)
            main = torch.zeros(n, k, dtype=self._dtype, device=self._torch_device)

            def forward(i: int) -> None:
                torch.matmul(inputs[i % count], weights[i % count].t())

            def input_gradient(i: int) -> None:
                torch.matmul(gradients[i % count], weights[i % count])

            def weight_gradient(i: int) -> None:
                main.add_(torch.matmul(gradients[i % count].t(), inputs[i % count]))

            return self._three(shape, forward, input_gradient, weight_gradient)

        return self._guard(f"a product {m} x {n} x {k}", run) or []

    def _three(self, shape: Shape, forward: Call, inputs: Call, weights: Call) -> list[Any]:
        return [
            _sample(shape, self._time(forward)),
            _sample(shapes.input_gradient(shape), self._time(inputs)),
            _sample(
                shapes.weight_gradient(shape),
                self._time(weights) / WEIGHT_GRADIENT_OVER_FORWARD,
            ),
        ]

    def _grouped_product(self, shape: Shape) -> list[dict[str, Any]]:
        m, n, k, groups = shape
        rows = m // groups
        count = self._copies_of(self._element * (m * k + 2 * groups * n * k + 2 * m * n))
        if count == 0:
            return []

        def run() -> list[dict[str, Any]]:
            inputs = self._many(count, groups, rows, k)
            weights = self._many(count, groups, n, k)
            gradients = self._many(count, groups, rows, n)
            main = torch.zeros(groups, n, k, dtype=self._dtype, device=self._torch_device)
            multiply = _grouped_multiplication(self._device)

            def forward(i: int) -> None:
                multiply(inputs[i % count], weights[i % count].transpose(1, 2))

            def input_gradient(i: int) -> None:
                multiply(gradients[i % count], weights[i % count])

            def weight_gradient(i: int) -> None:
                main.add_(multiply(gradients[i % count].transpose(1, 2), inputs[i % count]))

            whole = Shape(rows * groups, n, k, groups)
            return self._three(whole, forward, input_gradient, weight_gradient)

        return self._guard(f"{groups} products {rows} x {n} x {k}", run) or []

    # --- Attention ---

    def _attention(self, shape: Shape) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        sequence, _, head, groups = shape
        fused = getattr(functional, "scaled_dot_product_attention", None)
        scores = 0 if fused is not None else 4 * sequence * sequence * groups
        if not self._fits(4.0 * self._element * (4 * sequence * head * groups + scores)):
            return [], []

        def explicit(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            scale = float(query.shape[-1]) ** -0.5
            products = torch.matmul(query, key.transpose(-1, -2)).mul(scale)
            seen = products.masked_fill(mask, float("-inf"))
            return torch.matmul(torch.softmax(seen, dim=-1), value)

        mask = torch.ones(sequence, sequence, dtype=torch.bool, device=self._torch_device).triu(
            diagonal=1
        )

        def run() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            operands = [self._random(1, groups, sequence, head, grad=True) for _ in range(3)]
            gradient = self._random(1, groups, sequence, head)

            def attend() -> torch.Tensor:
                if fused is not None:
                    return fused(*operands, is_causal=True)
                return explicit(*operands)

            def forward(_: int) -> None:
                with torch.enable_grad():
                    attend()

            def both(_: int) -> None:
                with torch.enable_grad():
                    torch.autograd.grad(attend(), operands, gradient)

            first = self._time(forward)
            second = self._time(both) - first
            backward = [_sample(shape, second)] if second > 0 else []
            return [_sample(shape, first)], backward

        return self._guard(f"attention over {sequence}", run) or ([], [])

    # --- Streams: what memory traffic bounds ---

    def _streams(self) -> list[dict[str, Any]]:
        """One of each, with the traffic that the planner counts for it (core/model/operations*.cc),
        and how often a layer of each kind runs it."""
        job = self._job
        hidden = int(job["hidden_size"])
        tensor = degree(job, "tensor_model_parallel_size")
        tokens = int(job["seq_length"]) * int(job["micro_batch_size"])
        tokens //= degree(job, "context_parallel_size")
        between = tokens // tensor if job["sequence_parallel"] else tokens
        gate = 2 if job["swiglu"] else 1
        found = [
            self._norm(between, hidden, {"dense": 2, "moe": 2}),
            self._residual(between, hidden, {"dense": 2, "moe": 2}),
        ]
        kinds = job.get("layer_kinds") or ["moe" if job["num_experts"] else "dense"]
        if "dense" in kinds and job["ffn_hidden_size"]:
            ffn = int(job["ffn_hidden_size"]) // tensor
            found.append(self._activation(tokens, ffn, gate, {"dense": 1}))
        if job["num_experts"]:
            shards = degree(job, "expert_tensor_parallel_size")
            rows = int(job["moe_router_topk"] or 1) * (tokens // tensor)
            ffn = int(job["moe_ffn_hidden_size"] or job["ffn_hidden_size"]) // shards
            found.append(self._permutation(between, rows, hidden, {"moe": 2}))
            found.append(self._activation(rows * shards, ffn, gate, {"moe": 1}))
            found.append(self._scores(between, int(job["num_experts"]), {"moe": 1}))
        if job["padded_vocab_size"]:
            vocabulary = int(job["padded_vocab_size"]) // tensor
            found.append(self._loss(tokens, vocabulary, {"loss": 1}))
        return [stream for stream in found if stream is not None]

    def _stream(
        self,
        name: str,
        count: dict[str, int],
        traffic: float,
        inputs: list[torch.Tensor],
        compute: Callable[..., torch.Tensor],
        backward_traffic: Optional[float] = None,
    ) -> dict[str, Any]:
        """Times forward and backward of `compute` over one of `inputs` at a time."""

        def both(i: int) -> None:
            tensor = inputs[i % len(inputs)]
            with torch.enable_grad():
                output = compute(tensor)
                torch.autograd.grad(output, tensor, gradient if output.dim() else None)

        with torch.no_grad():
            gradient = torch.ones_like(compute(inputs[0]))
        if backward_traffic is None:
            backward_traffic = traffic * BACKWARD_TRAFFIC
        return {
            "name": name,
            "count": count,
            "bytes": traffic + backward_traffic,
            "launches": 2,
            "seconds": self._time(both),
        }

    def _norm(self, tokens: int, hidden: int, count: dict[str, int]) -> Any:
        def run() -> dict[str, Any]:
            inputs = [self._random(tokens, hidden, grad=True) for _ in range(self._copies)]
            weight = self._random(hidden)
            root = "rms" in str(self._job["normalization"] or "").lower()

            def compute(x: torch.Tensor) -> torch.Tensor:
                fused = getattr(functional, "rms_norm", None)
                if root and fused is not None:
                    return fused(x, (hidden,), weight)
                if root:
                    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
                return functional.layer_norm(x, (hidden,), weight)

            return self._stream(
                "norm", count, 2.0 * tokens * hidden * self._element, inputs, compute
            )

        return self._guard("a norm", run)

    def _residual(self, tokens: int, hidden: int, count: dict[str, int]) -> Any:
        def run() -> dict[str, Any]:
            number = self._copies
            left, right = self._many(number, tokens, hidden), self._many(number, tokens, hidden)
            # Forward it adds the branch, backward the branch's gradient: twice the same.
            seconds = 2 * self._time(lambda i: torch.add(left[i % number], right[i % number]))
            traffic = 3.0 * tokens * hidden * self._element
            return {
                "name": "residual",
                "count": count,
                "bytes": traffic * (1 + BACKWARD_TRAFFIC),
                "launches": 2,
                "seconds": seconds,
            }

        return self._guard("a residual", run)

    def _activation(self, tokens: int, ffn: int, gate: int, count: dict[str, int]) -> Any:
        def run() -> dict[str, Any]:
            inputs = [self._random(tokens, gate * ffn, grad=True) for _ in range(self._copies)]

            def compute(x: torch.Tensor) -> torch.Tensor:
                if gate == 1:
                    return functional.gelu(x)
                left, right = torch.chunk(x, 2, dim=-1)
                return functional.silu(left) * right

            traffic = (gate + 1.0) * tokens * ffn * self._element
            return self._stream("activation", count, traffic, inputs, compute)

        return self._guard("an activation", run)

    def _permutation(self, tokens: int, rows: int, hidden: int, count: dict[str, int]) -> Any:
        def run() -> dict[str, Any]:
            inputs = [self._random(tokens, hidden, grad=True) for _ in range(self._copies)]
            order = torch.arange(rows, device=self._torch_device).mul(7919).remainder(tokens)
            traffic = 2.0 * rows * hidden * self._element
            return self._stream(
                "permutation", count, traffic, inputs, lambda x: x.index_select(0, order)
            )

        return self._guard("a permutation", run)

    def _scores(self, tokens: int, experts: int, count: dict[str, int]) -> Any:
        def run() -> dict[str, Any]:
            inputs = [self._random(tokens, experts, grad=True) for _ in range(self._copies)]
            topk = min(experts, int(self._job["moe_router_topk"] or 1))

            def compute(x: torch.Tensor) -> torch.Tensor:
                return torch.softmax(x, dim=-1).topk(topk, dim=-1).values

            traffic = 4.0 * tokens * experts * self._element
            return self._stream("router_scores", count, traffic, inputs, compute)

        return self._guard("router scores", run)

    def _loss(self, tokens: int, vocabulary: int, count: dict[str, int]) -> Any:
        logits = float(tokens) * vocabulary
        if not self._fits(logits * (2 * self._element + 16)):
            return None

        def run() -> dict[str, Any]:
            inputs = [self._random(tokens, vocabulary, grad=True)]
            labels = torch.arange(tokens, device=self._torch_device).remainder(vocabulary)
            fused = bool(self._job["cross_entropy_loss_fusion"])
            forward = self._element + 4 + (20 if fused else 32)

            def compute(x: torch.Tensor) -> torch.Tensor:
                return functional.cross_entropy(x.float(), labels)

            return self._stream(
                "loss", count, logits * forward, inputs, compute, logits * (12 + self._element)
            )

        return self._guard("the loss", run)

    # --- The device ---

    def _kernel_seconds(self) -> float:
        tiny = self._random(8)
        return self._time(lambda _: tiny.add_(0.0))

    def _memory_rate(self) -> float:
        size = int(
            min(self._device.free_bytes() / 4, 2**28 if self._device.asynchronous else 2**26)
        )
        count = max(1, size // self._element)
        left, right, out = self._random(count), self._random(count), self._random(count)
        seconds = self._time(lambda _: torch.add(left, right, out=out))
        return 3.0 * count * self._element / seconds


def _sample(shape: Shape, seconds: float) -> dict[str, Any]:
    return {**shape._asdict(), "seconds": seconds}


def _grouped_multiplication(device: Device) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """[groups, rows, k] x [groups, k, n]: on accelerators as one batched product, which is what
    grouped kernels take for equal groups; on the CPU one after the other, as the job does."""
    if device.asynchronous:
        return torch.bmm

    def loop(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.matmul(a, b) for a, b in zip(left, right)])

    return loop
