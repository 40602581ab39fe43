"""Right names in debuggers: a plug-in inside of gdb or lldb, and a helper process that answers it.

A debugger runs its own Python, which may be of another version than the one that `icf` is installed for, and cannot
load its compiled modules. So the plug-in (`inside/`) only collects: addresses that the debugger has unwound, modules,
objects. The helper (`server.py`), `icf` in a process of its own, resolves them with the resolver that everything else
uses, and the plug-in shows the answers.

    gdb  ──  inside/gdb_plugin.py ──┐                        ┌──  server.py  ──  unwind.resolve
                                    ├── inside/client.py  ═══╡    a question, an answer: a line of JSON each
    lldb ──  inside/lldb_plugin.py ─┘                        └──  one process for each debugger

Files in `inside/` import the standard library and each other, and are written for Python 3.8 and later.
"""
