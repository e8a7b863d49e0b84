"""A small training framework with the module and function names of Megatron-LM, for tests.

It trains real Transformers on CPUs: data, expert and pipeline parallelism over gloo. Sizes come
from the same arguments. Only what the profiler hooks has Megatron-LM's names.
"""
