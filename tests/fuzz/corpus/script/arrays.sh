#!/bin/bash
#SBATCH --nodes=4
set -euo pipefail
source ./env.sh || true
ARGS=(--num-layers 12 --hidden-size "${HIDDEN:-1024}")
if [[ ${1:-} == first && $# -gt 1 ]]; then ARGS+=(--bf16); fi
for i in 1 2; do X=$((i * 3 + ${#ARGS[@]})); done
case $1 in f*) Y=a ;; *) Y=b ;; esac
run() { torchrun --nproc_per_node 8 "$@"; }
cat > conf.txt <<EOF
value $X
EOF
while read -r a b; do Z=$b; done < conf.txt
run pretrain_gpt.py "${ARGS[@]}" --lr 1e-$i --save "${OUT:=/tmp/${Y^^}}" $(echo --seed $X)
