"""Functions made at run time.

perf_map, jitdump         the two formats; code and regions: their contents
files, growing_file       find such files, and read on as they grow
"""
