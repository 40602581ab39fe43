"""Recording with perf.

command          the command line of perf, and running it
obstacles        what keeps perf from recording, and how to get it
frame_pointers   whether a program keeps frame pointers
"""
