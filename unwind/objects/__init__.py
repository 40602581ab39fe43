"""Parameters of the functions in a stack, and the objects of its methods, from registers, memory and DWARF.

activation.py    a frame in the image that its code is from, and its caller
expressions.py   evaluates DWARF expressions: the place of a value
entry.py         values at the entry of a function, from the call site in its caller
parameters.py    the parameters of a frame
instructions.py  the code of a function
kept.py          where it still holds what it was entered with
this.py          the objects of a stack, and what their vtable pointers are
"""
