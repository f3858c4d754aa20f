#!/usr/bin/env bash
# Ends what scripts/slurm-up.sh FOLDER began: the jobs, then the daemons.
folder=$(realpath -m "${1:?folder}")
export SLURM_CONF=$folder/slurm.conf

jobs_left() { timeout 5 squeue -h -o %A 2>/dev/null | sort -u; }
signal() { # signal NAME: send it to every daemon that is alive; fails if there is none
    local found=1 file pid
    for file in "$folder"/run/*.pid; do
        pid=$(cat "$file" 2>/dev/null) || continue
        case $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) in '' | Z*) continue ;; esac
        kill "-$1" "$pid" && found=0
    done
    return $found
}

jobs_left | timeout 10 xargs -r scancel 2>/dev/null
jobs_left | timeout 10 xargs -r scancel --signal=KILL --full 2>/dev/null
for _ in $(seq 1 75); do
    [ -z "$(jobs_left)" ] && break
    sleep 0.2
done
signal TERM
for _ in $(seq 1 50); do
    signal 0 || exit 0
    sleep 0.2
done
signal KILL
exit 1
