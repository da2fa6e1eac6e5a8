#!/bin/bash
# Converts a checkpoint on many nodes of a Slurm cluster: plans it here, writes its parts as an array of jobs, and finishes
# when all of them have succeeded. Checkpoint and OUT lie where every node sees them.
#
#   slurm.sh CHECKPOINT OUT PARTS [options of "unshard plan"]
#   slurm.sh CHECKPOINT OUT 8 --dtype bf16 --max-shard-size 5GB
#
# A job that fails or is preempted is run again by Slurm (--requeue), or by you: the same command as the first time. What
# is finished stays. UNSHARD is the command to run (default: npx unshard), SBATCH_* the options of sbatch, as ever.
#
#SBATCH --job-name=unshard
#SBATCH --cpus-per-task=4
#SBATCH --mem=2G
#SBATCH --requeue

set -euo pipefail

read -ra unshard <<<"${UNSHARD:-npx unshard}"

part() {
  "${unshard[@]}" run "$1" "$2" --part "$SLURM_ARRAY_TASK_ID/$3"
}

finish() {
  "${unshard[@]}" finish "$1" "$2"
}

submit() {
  if [ $# -lt 3 ]; then
    echo "Usage: slurm.sh CHECKPOINT OUT PARTS [options of unshard plan]" >&2
    exit 2
  fi
  local checkpoint=$1 out=${2%/} parts=$3
  local plan="$out.plan.json"
  shift 3
  if [ -e "$plan" ]; then
    echo "Going on with $plan. Remove it to plan anew." >&2
  else
    "${unshard[@]}" plan "$checkpoint" -o "$plan" "$@"
  fi
  local job
  job=$(sbatch --parsable --array="1-$parts" "$0" part "$plan" "$out" "$parts")
  sbatch --dependency="afterok:${job%%;*}" --kill-on-invalid-dep=yes "$0" finish "$plan" "$out"
}

case "${1:-}" in
  part | finish) "$@" ;;
  *) submit "$@" ;;
esac
