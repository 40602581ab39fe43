"""Images at run-time addresses: the modules of a process.

process        modules, and what they define for each other
module_list    reads `--modules`; maps reads /proc/PID/maps; load_address finds where an image was loaded
live/          a process that runs
jit/           functions made at run time
"""
