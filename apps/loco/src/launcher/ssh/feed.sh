# Writes the input of this shell into the pipe that the process loco_holder keeps open, and lets go of the pipe at the end.
# loco_mark tells the process from another that has got its id meanwhile.
{
    cat >"/proc/$loco_holder/fd/1"
    if grep -qsF "LOCO_RUN=$loco_mark" "/proc/$loco_holder/environ"; then kill -s KILL "$loco_holder"; fi
} 2>/dev/null
exit 0
