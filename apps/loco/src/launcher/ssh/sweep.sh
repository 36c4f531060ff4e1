# Kills all processes that have the mark loco_mark in their environment.

# Returns true if a process is in the midst of `exec`: it has memory already (field 23 of its `stat`) and no environment yet (field 51),
# so the mark would not be found. Zombies and threads of the kernel have no memory. Those who may not look see a 1 as field 26.
loco_between() {
    grep -qsE '\) [^Z]( -?[0-9]+){19} [1-9][0-9]*( -?[0-9]+){2} (0|[2-9]|[1-9][0-9]+)( -?[0-9]+){24} 0( |$)' /proc/[0-9]*/stat
}

# Kills until four rounds in a row find nothing. What is in the midst of `exec` in one round has its environment again in the next. A process
# that cannot be killed does not hold this up.
loco_sweep() {
    loco_rounds=0
    loco_empty=0
    while [ "$loco_rounds" -lt 100 ] && [ "$loco_empty" -lt 4 ]; do
        loco_found=$(grep -lsF "LOCO_RUN=$loco_mark" /proc/[0-9]*/environ)
        if [ -n "$loco_found" ] || loco_between; then loco_empty=0; else loco_empty=$((loco_empty + 1)); fi
        for loco_process in $loco_found; do
            loco_process=${loco_process#/proc/}
            kill -s KILL "${loco_process%/environ}"
        done
        loco_rounds=$((loco_rounds + 1))
    done
}
