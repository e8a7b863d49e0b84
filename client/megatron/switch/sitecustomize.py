"""Starts the profiler in every Python process that has this folder on PYTHONPATH and HAPMOE_PROFILE set.

Python imports the first module of this name at its start. One that stands behind it on the path, of
a distribution or of the site, runs as it would have without this folder.
"""

import os
import sys


def _run_next() -> None:
    import importlib.machinery

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _start_profiler() -> None:
    try:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        from hapmoe_profiler.profiler import start_from_environment

        start_from_environment()
    except Exception as error:  # The job comes first.
        sys.stderr.write("hapmoe_profiler: not started: %s\n" % error)


if os.environ.get("HAPMOE_PROFILE"):
    _start_profiler()
_run_next()
