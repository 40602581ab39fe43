"""Stacks to answers: which of several folded functions each frame is.

resolver   two sweeps over a stack, with memory of what stacks have in common
chain      one frame, given its caller; `walk`, which of these steps stacks have taken
relations  which members of a caller may have called which of a callee: by records, jumps, pointers
reach      which functions a call reaches by tail calls; `tailpaths` and `missing_frames` which have left by them
vptrs      which vtable pointers sampled with a stack still count
answer     the answer for a frame; `reasons` and `explain` why
"""
