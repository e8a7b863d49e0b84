from .global_vars import get_args
from .training import pretrain
