"""Call frame information: how to get from the registers of a frame to those of its caller.

frames.py     `CallFrames`: the row of an address, or all rows of an image
index.py      the FDE of an address: `.eh_frame_hdr`, or a list of all FDEs
entries.py    CIEs and FDEs; pointers.py the pointers in them
_rows.py      the kernel: runs the program of an FDE
rules.py      the columns of a row, the kinds of rules
"""
