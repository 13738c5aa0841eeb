#!/bin/bash
# Written by envbuild submit from pylock.digits.toml (sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa).
#SBATCH --job-name=digits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --output=.envbuild/jobs/%j.out
#SBATCH --gpus-per-task=h200:1
#SBATCH --time=1-12:00:00
#SBATCH --partition=gpu,gpu-long
#SBATCH --constraint=h200&ib
#SBATCH --account=team.a
#SBATCH --array=0-9%2
#SBATCH --open-mode=append
#SBATCH --requeue
set -eu
cd '/home/a b/project'
# The nodes share no folder: ranks meet over TCP. The secret is drawn here, so that it is not in this script.
ENVBUILD_RANKS_SECRET=$(od -An -vN16 -tx1 /dev/urandom | tr -d ' \n')
export ENVBUILD_RANKS_ADDRESS=auto ENVBUILD_RANKS_SECRET
# Exit code 78 (machines that do not match) and 18 (a rank that did not come) end the whole step.
# From Slurm 22.05 on, srun does not take --cpus-per-task from the job.
exec srun --kill-on-bad-exit=1 --cpus-per-task=2 envbuild run --lock '/home/a b/pylock.x.toml' train.py --name 'it'"'"'s; $(id) `id` "x" #SBATCH' '*'
