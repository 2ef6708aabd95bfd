#!/usr/bin/env bash
# start.sh DIR [PID]: a Slurm cluster of one node on loopback, under DIR, a new folder; needs root, slurm-wlm and munge.
# When process PID has ended, however that came about, so does the cluster.
# Afterwards: export SLURM_CONF=DIR/slurm.conf. stop.sh DIR ends the processes that are listed in DIR/pids, and
# all that have LOWTIDE_TEST_CLUSTER=DIR in their environment.
set -euo pipefail
dir=$(realpath -m "$1")
host=$(hostname -s)
mkdir -p "$dir"/{munge,state,spool,log}
chmod 711 "$dir" "$dir/munge" # munged insists that its clients reach the socket
head -c 1024 /dev/urandom > "$dir/munge/key"
chmod 600 "$dir/munge/key"
megabytes=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
if [ $# -gt 1 ]; then
    setsid bash -c 'while [ -d "/proc/$1" ]; do sleep 0.5; done; exec "$2" "$3"' _ \
        "$2" "$(realpath "$(dirname "$0")")/stop.sh" "$dir" > /dev/null 2>&1 < /dev/null &
fi
# Two ports that nobody listens on now.
read -r controller_port node_port < <(python3 -c '
import socket
found = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in found))')
cat > "$dir/slurm.conf" << CONF
ClusterName=lowtide
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
SlurmctldPort=$controller_port
SlurmdPort=$node_port
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MinJobAge=3600
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$megabytes State=UNKNOWN
PartitionName=cpu Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$dir/slurm.conf LOWTIDE_TEST_CLUSTER=$dir
: > "$dir/pids"

# begin NAME COMMAND...: start a daemon that outlives this script, and note its process.
begin() {
    local name=$1
    shift
    "$@" > "$dir/log/$name.out" 2>&1 < /dev/null &
    echo $! >> "$dir/pids"
}

begin munged munged --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/log/munged.log"
for _ in $(seq 50); do
    [ -S "$dir/munge/socket" ] && break
    sleep 0.1
done
[ -S "$dir/munge/socket" ] || { cat "$dir/log/munged.out" >&2; exit 1; } # else every client hangs for seconds
begin slurmctld slurmctld -D -i -f "$SLURM_CONF"
begin slurmd slurmd -D -f "$SLURM_CONF"
for _ in $(seq 60); do
    [ "$(timeout 5 sinfo -h -o %T 2> /dev/null)" = idle ] && exit 0
    sleep 0.2
done
tail -n 20 "$dir"/log/* >&2
exit 1
