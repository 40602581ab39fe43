"""Traces of drmemtrace: every instruction that a process ran, in order, with its bytes and the data that it accessed.

    files ──container──> bytes, chunk by chunk ──_records──> rows: instructions with their bytes, data, markers

A trace is never in memory as a whole: what is read goes through in blocks.
"""
