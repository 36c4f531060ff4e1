# Kills all processes that have the mark loco_mark in their environment.

# Prints the processes of which $@ are the files `stat` and whose environment has something in it, or is not there yet, as in the
# midst of `exec`. Zombies and threads of the kernel have no memory (field 23), an environment that is empty ends where it begins
# (fields 50 and 51), and those who may not look see a 1 as field 26.
loco_with_environment() {
    grep -hsE '\) [^Z]( -?[0-9]+){19} [1-9][0-9]*( -?[0-9]+){2} (0|[2-9]|[1-9][0-9]+)( -?[0-9]+){25}' "$@" |
        grep -vE '\) .( -?[0-9]+){46} ([1-9][0-9]*) \2( |$)' | cut -d ' ' -f 1
}

# Kills until four rounds in a row find nothing. In a round each process is looked at once, and one whose environment could not be
# read then is looked at in another round: what runs one program after the other may be in the midst of `exec` at any look. A
# process that cannot be killed does not hold this up.
loco_sweep() {
    loco_rounds=0
    loco_empty=0
    while [ "$loco_rounds" -lt 100 ] && [ "$loco_empty" -lt 4 ]; do
        set -- /proc/[0-9]*/stat
        # The first byte of each environment that could be read, and the marks.
        loco_seen=$(LC_ALL=C grep -asHoE "^.|LOCO_RUN=$loco_mark" $(printf '%s\n' "$@" | sed 's/stat$/environ/'))
        loco_empty=$((loco_empty + 1))
        for loco_process in $loco_seen; do
            case $loco_process in
            *":LOCO_RUN=$loco_mark")
                loco_process=${loco_process#/proc/}
                kill -s KILL "${loco_process%%/*}"
                loco_empty=0
                ;;
            esac
        done
        for loco_process in $(loco_with_environment "$@"); do
            case $loco_seen in
            *"/proc/$loco_process/environ:"*) ;;
            *) loco_empty=0 ;;
            esac
        done
        loco_rounds=$((loco_rounds + 1))
    done
}
