"""Names that profiles may have."""

from __future__ import annotations

import re


def profile_name(text: str) -> str:
    """A name that profiles may have: letters, digits, spaces and "-_.+", at most 64 bytes."""
    name = re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9 _.+-]", " ", text)).strip()
    return name[:64].strip() or "unknown"
