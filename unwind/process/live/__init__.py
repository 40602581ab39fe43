"""A process that runs: the meaning of its addresses now.

procfs                       /proc/PID
module_file, memory_image    the file of a mapping, or its contents in memory
live_process                 joins them with `unwind.process.jit`, updated for each question
"""
