"""Runs a profiled job whose profiler fails somewhere: faulty_job.py FAULT OPTIONS... SCRIPT ARGS...

FAULT is the name of a function of the recorder or of the end of a recording that raises, "all" for
every function that hooks call, or "none". "@1" behind it: on rank 1 only. When the job is done,
prints what the profiler has left in the process.
"""

import os
import sys

from hapmoe_profiler import __main__, collectives

HOOKS = (
    "open",
    "close",
    "open_module",
    "close_module",
    "note_layer",
    "note_routing",
    "note_memory",
)


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("as the test wants it")


def inject(fault: str) -> None:
    from hapmoe_profiler import recorder, report

    fault, _, rank = fault.partition("@")
    if fault == "none" or (rank and os.environ["RANK"] != rank):
        return
    if hasattr(report, fault):
        setattr(report, fault, fail)
        return
    for name in HOOKS if fault == "all" else (fault,):
        assert hasattr(recorder.Recorder, name), name
        setattr(recorder.Recorder, name, fail)


def leftovers() -> list[str]:
    """Names of functions that are still wrapped, and finders that are still there."""
    found = [type(finder).__name__ for finder in sys.meta_path]
    found = [name for name in found if name == "ImportHook"]
    for name, module in list(sys.modules.items()):
        if not name.startswith("megatron"):
            continue
        for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
            for attribute, value in vars(owner).items():
                code = getattr(value, "__code__", None)
                if code is not None and "hapmoe_profiler" in code.co_filename:
                    found.append(f"{name}.{attribute}")
    return found


if __name__ == "__main__":
    inject(sys.argv[1])
    if sys.argv[1] != "none":
        collectives._PATIENCE = 1.5  # Nobody comes, or nobody answers.
    sys.argv = sys.argv[1:]
    try:
        sys.exit(__main__.main())
    finally:
        print("leftovers", leftovers(), flush=True)
