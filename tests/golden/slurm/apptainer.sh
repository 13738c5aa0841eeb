#!/bin/bash
# Written by envbuild submit from pylock.digits.toml (sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa).
#SBATCH --job-name=digits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gpus-per-task=h200:1
#SBATCH --time=1-12:00:00
#SBATCH --partition=gpu,gpu-long
#SBATCH --constraint=h200&ib
#SBATCH --account=team.a
#SBATCH --array=0-9%2
#SBATCH --open-mode=append
#SBATCH --requeue
set -eu
cd /home/a/project
# The guard ends a task on a node that does not match with exit code 78, which ends the whole step.
# The nodes are not compared with each other, and no run is recorded.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29500
exec srun --kill-on-bad-exit=1 --cpus-per-task=2 bash -c '
    verdict=$PWD/.envbuild/jobs/$SLURM_JOB_ID-$SLURM_STEP_ID-$SLURM_PROCID
    mkdir -p "$verdict"
    # Nothing of the host but this: --containall keeps its environment and home out.
    exec apptainer run --containall --nv \
        --bind "$PWD:/workspace" --pwd /workspace --bind "$verdict:/run/envbuild" \
        --env "RANK=$SLURM_PROCID,WORLD_SIZE=$SLURM_STEP_NUM_TASKS,LOCAL_RANK=$SLURM_LOCALID" \
        --env "SLURM_PROCID=$SLURM_PROCID,MASTER_ADDR=$MASTER_ADDR,MASTER_PORT=$MASTER_PORT" \
        --env "SLURM_ARRAY_TASK_ID=$SLURM_ARRAY_TASK_ID" "$@"
' bash /images/digits.sif python train.py --name 'it'"'"'s; $(id) `id` "x" #SBATCH' '*'
