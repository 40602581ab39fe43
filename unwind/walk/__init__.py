"""Stacks from registers and memory.

walker.py    `Walker`: unwinds with the steps that are known, and finds those that are not
frame.py     a frame, and the memory that goes with it
images.py    the steps of an image: its call frame information, its PLT (`plt`)
windows.py   the steps of a PE image: its unwind information, epilogues (`epilogue`); `stackpointer` is what both move
vdso.py      the kernel's own image in a process
columns.py   what is known of a frame
_walk.py     the kernel of the walk; _evaluate.py has the expressions of call frame information
_expressions.py  the kernel of other expressions; _operations.py has what both kernels run
"""
