#!/usr/bin/env bash
# Ends what scripts/slurm-up.sh FOLDER began, and the jobs in it.
folder=$(realpath -m "${1:?folder}")
export SLURM_CONF=$folder/slurm.conf
timeout 10 squeue -h -o %A 2>/dev/null | sort -u | timeout 10 xargs -r scancel --signal=KILL --full 2>/dev/null
timeout 10 squeue -h -o %A 2>/dev/null | sort -u | timeout 10 xargs -r scancel 2>/dev/null
alive() { for file in "$folder"/run/*.pid; do [ -f "$file" ] && kill "$@" "$(cat "$file")" 2>/dev/null && echo "$file"; done; }
alive -TERM >/dev/null
for _ in $(seq 1 100); do
    [ -z "$(alive -0)" ] && exit 0
    sleep 0.1
done
alive -KILL >/dev/null
exit 1
