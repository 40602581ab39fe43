"""Functions made at run time.

perf_map, jitdump         the two formats; code and regions: what they say
files, growing_file       finds such files, and reads on as they grow
"""
