"""One image as the resolver needs it: bodies and their candidates, call-site records, code.

program              the interface for the resolver
from_image           makes it from the tables of an image; from_foreign_tables from those of another tool.
                     `unwind.symcache.reader.program` makes it from a symcache
functions, exports   functions outside of fold classes; functions that other modules call by name
dispatch             targets of pointers and vtable slots
code                 the instruction before a return address, the jumps of a function: from `facts` of an image or
                     a symcache. constants and passed: addresses that code forms, registers that it passes on
"""
