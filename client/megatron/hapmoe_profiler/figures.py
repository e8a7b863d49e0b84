"""Figures of a profile: a number, where it was read, and how far to trust that."""

from __future__ import annotations

from typing import Any

# A clock above its nominal rate may beat the data sheet by so much (the planner's own limit).
PEAK_TOLERANCE = 1.1


def figure(value: float, source: str, confidence: str = "MEDIUM") -> dict[str, Any]:
    return {"value": value, "source": source, "confidence": "CONFIDENCE_" + confidence}


def value_of(message: dict[str, Any], field: str) -> float:
    """A figure's value. JSON of protos leaves zeros out."""
    return float(message.get(field, {}).get("value", 0.0))


OURS = "hapmoe_profiler "


def raise_to(message: dict[str, Any], field: str, value: float, source: str) -> None:
    """Sets a rate that no data sheet gives to the best that was measured, now or by an earlier run
    of this profiler."""
    known = message.get(field)
    if known is None or (known.get("source", "").startswith(OURS) and value > known["value"]):
        message[field] = figure(value, source, "LOW")
