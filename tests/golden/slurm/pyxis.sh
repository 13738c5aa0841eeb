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
# The image's variables win over the host's. The entry point is the guard. The home folder, and NCCL's settings in it, stay out.
exec srun --kill-on-bad-exit=1 --cpus-per-task=2 --container-image='registry.example.com#team/digits:1' \
    --container-mounts="$PWD:/workspace" --container-workdir=/workspace \
    --container-entrypoint --no-container-mount-home python train.py --name 'it'"'"'s; $(id) `id` "x" #SBATCH' '*'
