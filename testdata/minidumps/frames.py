"""Run by gdb on the core file of the unfolded program: prints the functions of each thread, innermost first.

They end with the first function outside of the program: which that is differs by machine.
"""

import gdb

for thread in sorted(gdb.selected_inferior().threads(), key=lambda each: each.ptid[1]):
    thread.switch()
    frame, names = gdb.newest_frame(), []
    while frame is not None and frame.function() is not None and frame.type() != gdb.SIGTRAMP_FRAME:
        if not frame.function().symtab.filename.endswith("crash.cpp"):
            break
        if frame.type() == gdb.NORMAL_FRAME:
            names.append(frame.name())
        frame = frame.older()
    print("; ".join(names))
