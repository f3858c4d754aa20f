#!/usr/bin/env bash
# A private SLURM on this one machine, for tests: munged, slurmctld and NODES slurmd's, all below FOLDER, as root and
# without systemd. Prints the SLURM_CONF to export. scripts/slurm-down.sh FOLDER ends it.
#
#   scripts/slurm-up.sh FOLDER [NODES]
#
# Nodes are n1, n2, …, with 4 processors each; jobs in partition `high` preempt and requeue those in `low`. There is no
# accounting. Ports begin at $RLX_SLURM_PORT.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
folder=$(realpath -m "${1:?folder}")
nodes=${2:-2}
port=${RLX_SLURM_PORT:-16817}
host=$(hostname -s)

mkdir -p "$folder"/{munge,state,log,run}
chmod 755 "$folder" "$folder/munge"
[ -f "$folder/munge/key" ] || (umask 077 && head -c 128 /dev/urandom >"$folder/munge/key")

# cred_expire: the default holds a requeued job back for two minutes, and so does anything below 5.
cat >"$folder/slurm.conf" <<CONF
ClusterName=rlx
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmctldTimeout=30
SlurmdTimeout=60
InactiveLimit=0
KillWait=${RLX_SLURM_KILL_WAIT:-30}
MinJobAge=300
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
RebootProgram=/bin/true
SlurmdParameters=config_overrides
$(for i in $(seq 1 "$nodes"); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=4 RealMemory=4000 State=UNKNOWN"
done)
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=${RLX_SLURM_GRACE:-60}
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=10
CONF

export SLURM_CONF=$folder/slurm.conf
munged --key-file="$folder/munge/key" --socket="$folder/munge/munge.sock" --pid-file="$folder/run/munged.pid" \
    --log-file="$folder/log/munged.log" --seed-file="$folder/munge/seed" --num-threads=2
slurmctld -c -f "$SLURM_CONF"
for i in $(seq 1 "$nodes"); do slurmd -N "n$i" -f "$SLURM_CONF"; done

end=$((SECONDS + 60))
while [ $SECONDS -lt $end ]; do
    if [ "$(timeout 5 sinfo -h -N -p low -o %t 2>/dev/null | grep -cx idle)" = "$nodes" ]; then
        echo "$SLURM_CONF"
        exit 0
    fi
    sleep 0.2
done
echo "SLURM did not come up within a minute:" >&2
tail -n 20 "$folder"/log/*.log >&2
"$(dirname "$0")/slurm-down.sh" "$folder"
exit 1
