"""The command: profiles a training script, or joins what its ranks wrote."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from . import __version__
from .settings import DIRECTORY, Settings

_USAGE = """\
  python -m hapmoe_profiler [options] SCRIPT ARGS...
  python -m hapmoe_profiler [options] -m MODULE ARGS...
  python -m hapmoe_profiler merge DIR [--base FILE] [--accelerator NAME]

Under torchrun: torchrun ... -m hapmoe_profiler [options] SCRIPT ARGS..."""


def _run_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hapmoe_profiler",
        usage=_USAGE.strip(),
        description="Runs a Megatron-LM training script and profiles a few of its iterations.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=os.environ.get(DIRECTORY) or "hapmoe-profile",
        help="folder that all ranks write to (default: hapmoe-profile)",
    )
    parser.add_argument(
        "--skip", type=int, default=Settings.skip, help="iterations before the first recorded one"
    )
    parser.add_argument(
        "--iterations", type=int, default=Settings.iterations, help="iterations to record"
    )
    parser.add_argument(
        "--bench-seconds",
        type=float,
        default=Settings.bench_seconds,
        help="longest time of the micro-benchmarks; 0: none",
    )
    parser.add_argument(
        "--accelerator", default="", help="name of the accelerator type; the device's when left out"
    )
    parser.add_argument("--plan-id", default="", help="the plan that the job runs, for the report")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    return parser


def _merge_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hapmoe_profiler merge",
        description="Joins the files of a job's ranks: profiles, router statistics, report.",
        allow_abbrev=False,
    )
    parser.add_argument("directory", metavar="DIR")
    parser.add_argument(
        "--base", default="", help="profile to start from; found by the device's name when left out"
    )
    parser.add_argument("--accelerator", default="", help="name of the accelerator type")
    return parser


def _merge(argv: list[str]) -> int:
    from .merge import merge

    arguments = _merge_parser().parse_args(argv)
    try:
        for path in merge(arguments.directory, arguments.base, arguments.accelerator):
            print(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"hapmoe_profiler: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _run(argv: list[str]) -> int:
    parser = _run_parser()
    arguments = parser.parse_args(argv)
    settings = Settings(
        directory=os.path.abspath(arguments.out),
        skip=arguments.skip,
        iterations=arguments.iterations,
        bench_seconds=arguments.bench_seconds,
        accelerator=arguments.accelerator,
        plan_id=arguments.plan_id or os.environ.get("HAPMOE_PLAN_ID", ""),
    )
    try:
        checked = Settings.from_environment(settings.to_environment())
    except ValueError as error:
        parser.error(str(error))
    from .profiler import start

    assert checked is not None
    start(checked)
    sys.argv = [arguments.script, *arguments.arguments]
    if arguments.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments.script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.script)))
        runpy.run_path(arguments.script, run_name="__main__")
    return 0


def main() -> int:
    """Returns the exit code; a script that ends by itself decides its own."""
    if sys.argv[1:2] == ["merge"]:
        return _merge(sys.argv[2:])
    return _run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
