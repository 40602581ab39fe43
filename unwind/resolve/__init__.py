"""Stacks to answers: which of several folded functions each frame is.

resolver   two sweeps over a stack, remembered by what they have in common
chain      one frame in the light of its caller
relations  which members of a caller may have called which of a callee: by records, jumps, pointers
dispatch   where calls through pointers lead; `vptrs` which vtable pointers beside a stack may be believed
callgraph  who a call ends up in by tail calls; `tailpaths` and `missing_frames` who has left by them
answer     what is said of a frame; `explain` why
"""
