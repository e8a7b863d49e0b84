"""Micro-benchmarks of the job's products, grouped products and attention on one rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from . import shapes
from .device import Device
from .job import precision
from .shapes import WEIGHT_GRADIENT_OVER_FORWARD, Shape
from .streams import Streams
from .timing import Call, Timer


def run(device: Device, job: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What all benchmarks of a rank found, the job's own shapes first, until their time is up:
    {"gemm": [sample], "grouped_gemm": ..., "attention": ..., "attention_backward": ...,
    "streams": [stream], "kernel_seconds", "memory_bytes_per_second"}; a sample is
    {m, n, k, groups, seconds}."""
    end = time.monotonic() + seconds
    streams = Streams(device, job, end)
    return {
        "precision": precision(job),
        "kernel_seconds": streams.kernel_seconds(),
        "memory_bytes_per_second": streams.memory_rate(),
        "streams": streams.run(),
        **Operations(device, job, end).run(),
    }


class Operations(Timer):
    """Products and attention."""

    def run(self) -> dict[str, list[dict[str, Any]]]:
        """Samples of each kind."""
        found: dict[str, list[dict[str, Any]]] = {
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
