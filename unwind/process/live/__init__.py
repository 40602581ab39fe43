"""A process that runs: what its addresses mean now.

procfs                       /proc/PID
module_file, memory_image    the file of a mapping, or what is in its memory
live_process                 joins them with `unwind.process.jit`, looked at again for each question
"""
