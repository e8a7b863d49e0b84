"""The job's arguments."""

_ARGS = None


def get_args():
    assert _ARGS is not None, "args is not initialized"
    return _ARGS


def set_args(args):
    global _ARGS
    _ARGS = args
