sbatch <<'EOF'
#!/bin/bash
srun bash -c "python -u pretrain_gpt.py --num-layers $N --x ${A[@]:1:2} ${B%%.*} ${C//a/b}"
EOF
