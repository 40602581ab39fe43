"""Columns of trees of calls, and the hash tables in which kernels look nodes up.

    table    u64[2 ** n, 2]: key + 1 (0: a free place), value; at least half of the places are free
    nodes    u64[m]: node of the caller << 32 | number of the frame
    tree     table of (caller << 32 | number) to node
    states   u32[m]: what a node means to the resolver; 0: not known yet

Node 0 is the caller of all roots. The root of a process stands for the caller of its outermost frames.
"""

from __future__ import annotations

NONE = 0xFFFFFFFFFFFFFFFF
NUMBER_BITS = 32
NUMBER_MASK = 0xFFFFFFFF
FIRST_ROOT = 0x80000000  # roots have numbers from here on, frames have smaller ones
NODE_LIMIT = 0x80000000

HELD = 0x80000000  # of a state: the answers for the stack follow from more than the states of its frames
STATE_MASK = 0x7FFFFFFF

# The state of a tree, and of `follow`
NODE_COUNT, AT, WANTED_CALLER, WANTED_NUMBER = range(4)
TREE_WIDTH = 4

# Frames of stacks in columns, by address and kind: columns of the table of their numbers; the progress of kernels
FRAME_ADDRESS, FRAME_KIND, FRAME_NUMBER = range(3)
DONE, FRAMES, NEW, STACKS = range(4)
PROGRESS_WIDTH = 4
