#!/bin/bash
# Trains Mixtral 8x7B with Megatron-LM on the nodes of a Slurm allocation.
#
#   mixtral-8x7b.sh [CHECKPOINTS [TOKENIZER [DATA]]]
#
# Paths and sizes can be set from outside; the defaults are those of the walk-through in README.md.
set -euo pipefail

CHECKPOINTS=${1:-/ckpt}
TOKENIZER=${2:-/tok.model}
DATA=${3:-/data/doc}

GPUS=${GPUS_PER_NODE:-8}
NODES=${SLURM_NNODES:-4}
THIS_NODE=${RANK:-0}

export CUDA_DEVICE_MAX_CONNECTIONS=1

DISTRIBUTED_ARGS=(
    --nproc_per_node "$GPUS"
    --nnodes "$NODES"
    --node_rank "$THIS_NODE"
    --master_addr "${MASTER_ADDR:-localhost}"
    --master_port "${MASTER_PORT:-29500}"
)

MODEL=(
    --use-mcore-models --disable-bias-linear
    --seq-length "${SEQ_LENGTH:-4096}"
    --max-position-embeddings 32768
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0
    --normalization RMSNorm --position-embedding-type rope
    --swiglu --untie-embeddings-and-output-weights
    --group-query-attention --num-query-groups 8
    --no-masked-softmax-fusion --no-position-embedding --rotary-base 1000000
)

EXPERTS=(
    --num-experts 8 --moe-router-topk 2
    --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall
    --overlap-param-gather --overlap-grad-reduce
)

INPUT=(
    --tokenizer-type Llama2Tokenizer --tokenizer-model "$TOKENIZER"
    --data-path "$DATA" --split '99990,8,2'
)

SCHEDULE=(
    --micro-batch-size "${MICRO_BATCH:-1}" --global-batch-size "${GLOBAL_BATCH:-256}"
    --lr 1e-4 --train-iters 500000 --lr-decay-iters 320000 --lr-decay-style cosine
    --min-lr 1.0e-5 --weight-decay 0.1 --lr-warmup-iters 500 --clip-grad 1.0 --bf16
)

PARALLEL=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4
    --expert-model-parallel-size 8 --use-distributed-optimizer --sequence-parallel
)

OUTPUT=(
    --log-interval 1 --save-interval 10000 --eval-interval 1000 --eval-iters 10
    --save "$CHECKPOINTS" --load "$CHECKPOINTS" --tensorboard-dir "$CHECKPOINTS/tensorboard"
    --no-load-optim --no-load-rng
    --wandb-project "${WANDB_PROJECT:-Mixtral}" --wandb-exp-name "${WANDB_NAME:-Mixtral_8x7B}"
)

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL[@]}" "${EXPERTS[@]}" "${INPUT[@]}" "${SCHEDULE[@]}" "${PARALLEL[@]}" "${OUTPUT[@]}"
