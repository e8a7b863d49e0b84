"""One logger. Its lines say where they come from, and each of them appears once."""

from __future__ import annotations

import logging
import os

_seen: set[str] = set()


def logger() -> logging.Logger:
    """The package's logger; it prints to standard error unless the job has set one up."""
    log = logging.getLogger("hapmoe_profiler")
    if not log.handlers:
        handler = logging.StreamHandler()
        rank = os.environ.get("RANK", "0")
        handler.setFormatter(logging.Formatter(f"hapmoe_profiler[{rank}]: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    return log


def once(message: str, level: int = logging.WARNING) -> None:
    """Logs a message the first time that it is given."""
    if message in _seen:
        return
    _seen.add(message)
    try:
        logger().log(level, message)
    except Exception:  # A closed standard error must not reach the job.
        pass
