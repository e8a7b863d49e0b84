"""Warm-up profiler of Megatron-LM jobs for the HAPMoE planner.

Nothing here imports torch at import time, and nothing of it is imported unless it is switched on:

    python -m hapmoe_profiler [options] pretrain_gpt.py ARGS...    one command, or
    HAPMOE_PROFILE=DIR with client/megatron/switch on PYTHONPATH   one environment variable.

`python -m hapmoe_profiler merge DIR` joins what the ranks wrote. README.md beside the package says
what is recorded and what comes out.
"""

__version__ = "0.1.0"
