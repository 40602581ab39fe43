"""One image as the resolver needs it: bodies and their candidates, call-site records, code.

program              the interface for the resolver
from_tables          makes it from the three tables, which are those of an image (from_image) or of a symcache
                     (`unwind.symcache.reader.program`); from_foreign_tables from that of another tool
functions, exports   functions outside of fold classes; functions that other modules call by name
dispatch             targets of pointers and vtable slots
code                 the instruction before a return address, the jumps of a function: from `facts` of an image or
                     a symcache. constants and passed: addresses that code forms, registers that it passes on
"""
