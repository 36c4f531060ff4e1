# Runs one node on its host, for `loco run --ssh`. Any POSIX shell will do; `setsid`, `grep` and /proc are those of Linux.
#
# What comes before this sets loco_mark (text that nothing else prints), loco_directory, loco_input (yes or no), the functions
# loco_environment and loco_sweep (`sweep.sh`), and the program with its arguments as $@. The input of this shell is the
# connection: it brings names of signals, a line each, and its end is the end of the launcher or of the connection. Shells
# that say themselves that a process was killed are not heard: standard error is the program's.
#
# No process of ours has LOCO_RUN in its environment. All that the node starts have, whatever group or session they move to.

exec 3<&0 4>&1 5>&2

# Passes signals on to the group of the process $1, and kills everything when the connection ends. A process that has not
# made its group yet gets the signal alone.
loco_watch() {
    trap '' HUP INT QUIT TERM USR1 USR2
    while read -r loco_signal; do
        kill -s "$loco_signal" -- "-$1" || kill -s "$loco_signal" "$1"
    done
    kill -s KILL -- "-$1"
    loco_sweep
}

# Becomes the program. Before that, it prints the mark, with the process that holds the pipe of the input if there is one,
# and tells the supervisor whom to watch. The program is not in the background of a shell, where it would ignore interrupts.
loco_program() {
    loco_environment
    LOCO_RUN=$loco_mark
    export LOCO_RUN
    sh -c 'read -r holder
        echo "$0 $holder" >&4
        echo "process $$"
        exec setsid "$@" >&4 2>&5 3<&- 4>&- 5>&-' "$loco_mark" "$@"
    echo "code $?"
} 2>/dev/null

# Keeps the pipe to the program open until its input has come to its end, which `feed.sh` tells.
loco_hold() {
    LOCO_RUN=$loco_mark sh -c 'echo $$; exec sleep 2147483647' 2>/dev/null 3<&- 4>&- 5>&-
}

cd -- "$loco_directory" 2>/dev/null || {
    echo "loco: this host has no directory $loco_directory that can be entered; start the job in one that every host has" >&2
    exit 1
}

case $loco_input in
yes) loco_hold | loco_program "$@" ;;
*) loco_program "$@" </dev/null ;;
esac | {
    while read -r loco_what loco_value && [ "$loco_what" = process ]; do
        loco_node=$loco_value
        loco_watch "$loco_node" <&3 >/dev/null 2>&1 3<&- 4>&- 5>&- &
        loco_watcher=$!
    done
    kill -s KILL "$loco_watcher"
    kill -s KILL -- "-$loco_node"
    loco_sweep
    # 255 is also what `ssh` says when it has failed.
    [ "$loco_value" != 255 ] || echo "$loco_mark" >&4
    exit "$loco_value"
} 2>/dev/null
