"""Benchmarks of what memory traffic bounds: norms, activations, permutations, the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as functional

from .job import degree
from .timing import Timer

# Traffic of a backward pass over that of the forward pass (core/model/operation_builder.h).
BACKWARD_TRAFFIC = 1.5


class Streams(Timer):
    """The streams of one layer, and the loss."""

    def run(self) -> list[dict[str, Any]]:
        """One of each: {name, bytes, seconds, launches, count}, forward and backward pass together,
        with the traffic that the planner counts for it (core/model/operations*.cc). `count`: how
        often a layer of each kind runs it."""
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

    def kernel_seconds(self) -> Optional[float]:
        """Time of a tiny operation."""
        return self._guard("a tiny operation", self._tiny)

    def memory_rate(self) -> Optional[float]:
        """Bytes in a second of a large addition."""
        return self._guard("a large addition", self._large)

    def _tiny(self) -> float:
        tiny = self._random(8)
        return self._time(lambda _: tiny.add_(0.0))

    def _large(self) -> float:
        size = int(
            min(self._device.free_bytes() / 4, 2**28 if self._device.asynchronous else 2**26)
        )
        count = max(1, size // self._element)
        left, right, out = self._random(count), self._random(count), self._random(count)
        seconds = self._time(lambda _: torch.add(left, right, out=out))
        return 3.0 * count * self._element / seconds
