"""The symcache: everything that a query needs of one image, in one file.

format/    the bytes: sections with checksums (container), records, what identifies an image and its sources
reader/    answers: one address at a time (symcache), many at once (many), the program for the resolver (program)
builder/   makes the content from an image, its tables and its debug information
store/     keeps files in a folder: open_or_build returns the one that is still true, else builds it;
           lazy and partial: of large images only what was asked for

A process may ask for one address and end: what such a query imports stays free of numpy, ELF and DWARF.
"""
