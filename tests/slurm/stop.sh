#!/usr/bin/env bash
# stop.sh DIR: end the cluster that start.sh started under DIR, with everything that works for it.
set -uo pipefail
dir=$(realpath -m "$1")
[ -f "$dir/pids" ] || exit 0
unset LOWTIDE_TEST_CLUSTER # this script is none of them

# living: print the processes of the cluster. Those that look after a job have no environment left, but an open log.
living() {
    {
        cat "$dir/pids"
        grep -slzxF "LOWTIDE_TEST_CLUSTER=$dir" /proc/[0-9]*/environ
        find /proc/[0-9]*/fd -lname "$dir/*" 2> /dev/null
    } | sed -E 's|^/proc/([0-9]+)/.*|\1|' | sort -u | while read -r pid; do
        [ -d "/proc/$pid" ] && echo "$pid"
    done
}

kill $(living) 2> /dev/null
for _ in $(seq 10); do
    [ -z "$(living)" ] && exit 0
    sleep 0.1
done
for _ in $(seq 20); do
    kill -9 $(living) 2> /dev/null
    [ -z "$(living)" ] && exit 0
    sleep 0.1
done
echo "stop.sh: $dir: still there: $(living)" >&2
exit 1
