"""What the planner knows of an accelerator type already: its profile, by name."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from typing import Any, Optional

from . import files

# Beside the package in a checkout of the planner.
_PROFILES = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "deploy", "profiles"
)
_CLIENT_SECONDS = 20


def _key(name: str) -> str:
    return name.strip().lower()


def _names(profile: dict[str, Any]) -> set[str]:
    return {_key(name) for name in (profile.get("accelerator", ""), *profile.get("aliases", []))}


def find(name: str, base: str = "") -> Optional[dict[str, Any]]:
    """The profile of the type `name`: that of the file `base` where one is given; else what
    `hapmoe profiles get` answers, where that program is on the path and its server up, so that what
    was measured before is kept; else one of the checkout that this package lies in. None where
    nobody knows the name. OSError or ValueError where `base` cannot be read."""
    if base:
        profile = _unwrapped(files.read_json(base))
        if not isinstance(profile, dict) or not profile.get("accelerator"):
            raise ValueError(f"{base}: not an accelerator profile: it names no accelerator")
        return profile
    stored = _ask(name)
    if stored is not None:
        return stored
    for path in sorted(glob.glob(os.path.join(_PROFILES, "*.json"))):
        try:
            profile = files.read_json(path)
        except (OSError, ValueError):
            continue
        if isinstance(profile, dict) and _key(name) in _names(profile):
            return profile
    return None


def _unwrapped(answer: Any) -> Any:
    """The profile in what `hapmoe profiles get -o json` prints; other things as they are."""
    return answer["profile"] if isinstance(answer, dict) and "profile" in answer else answer


def _ask(name: str) -> Optional[dict[str, Any]]:
    program = shutil.which("hapmoe")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "profiles", "get", name, "-o", "json"],
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_CLIENT_SECONDS,
        )
        profile = _unwrapped(json.loads(answer.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return profile if isinstance(profile, dict) and profile.get("accelerator") else None
