"""What a user can choose. The command line sets the environment, and the environment decides."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

DIRECTORY = "HAPMOE_PROFILE"
PREFIX = "HAPMOE_PROFILE_"


def _number(environment: Mapping[str, str], name: str, default: float, least: float) -> float:
    text = environment.get(PREFIX + name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{PREFIX}{name} must be a number, not {text!r}") from None
    if not least <= value < float("inf"):
        raise ValueError(f"{PREFIX}{name} must be at least {least:g}, not {text}")
    return value


@dataclasses.dataclass(frozen=True)
class Settings:
    """Switches of one profiled job."""

    directory: str
    skip: int = 3  # Training steps that are not recorded: compilers and allocators settle.
    iterations: int = 5  # Training steps that are recorded.
    bench_seconds: float = 60.0  # For all micro-benchmarks together; 0 runs none.
    accelerator: str = ""  # Name of the accelerator type; the device's own where empty.
    plan_id: str = ""  # The plan that the job runs, for the report.

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Settings | None:
        """The settings, or None where profiling is off. ValueError says which variable is wrong."""
        directory = environment.get(DIRECTORY, "")
        if not directory:
            return None
        return Settings(
            directory=os.path.abspath(directory),
            skip=int(_number(environment, "SKIP", Settings.skip, 0)),
            iterations=int(_number(environment, "ITERATIONS", Settings.iterations, 1)),
            bench_seconds=_number(environment, "BENCH_SECONDS", Settings.bench_seconds, 0),
            accelerator=environment.get(PREFIX + "ACCELERATOR", ""),
            plan_id=environment.get("HAPMOE_PLAN_ID", ""),
        )

    def to_environment(self) -> dict[str, str]:
        """The variables that from_environment() reads these settings from."""
        return {
            DIRECTORY: self.directory,
            PREFIX + "SKIP": str(self.skip),
            PREFIX + "ITERATIONS": str(self.iterations),
            PREFIX + "BENCH_SECONDS": repr(self.bench_seconds),
            PREFIX + "ACCELERATOR": self.accelerator,
            "HAPMOE_PLAN_ID": self.plan_id,
        }
