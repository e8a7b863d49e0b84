"""The arguments of Megatron-LM that the stand-in knows."""

import argparse


def parse_args(argv=None):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in (
        "num-layers hidden-size num-attention-heads seq-length max-position-embeddings "
        "micro-batch-size global-batch-size train-iters vocab-size"
    ).split():
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in "ffn-hidden-size num-experts moe-ffn-hidden-size".split():
        parser.add_argument(f"--{name}", type=int)
    for name in (
        "moe-router-topk tensor-model-parallel-size pipeline-model-parallel-size "
        "expert-model-parallel-size make-vocab-size-divisible-by"
    ).split():
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--swiglu", action="store_true")
    parser.add_argument("--disable-bias-linear", action="store_true")
    parser.add_argument("--untie-embeddings-and-output-weights", action="store_true")
    parser.add_argument("--normalization", default="LayerNorm")
    parser.add_argument("--position-embedding-type", default="learned_absolute")
    parser.add_argument("--transformer-impl", default="local")
    parser.add_argument("--tokenizer-type", default="NullTokenizer")
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--hidden-dropout", type=float, default=0.0)
    parser.add_argument("--moe-token-dispatcher-type", default="alltoall")
    parser.add_argument("--moe-router-load-balancing-type", default="none")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args(argv)
    args.kv_channels = args.hidden_size // args.num_attention_heads
    if args.ffn_hidden_size is None:
        gated = int(4 * args.hidden_size * 2 / 3 / 64) * 64
        args.ffn_hidden_size = gated if args.swiglu else 4 * args.hidden_size
    args.moe_ffn_hidden_size = args.moe_ffn_hidden_size or args.ffn_hidden_size
    args.padded_vocab_size = args.vocab_size
    args.bf16 = args.fp16 = False
    args.use_distributed_optimizer = args.sequence_parallel = False
    return args
