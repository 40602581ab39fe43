"""The symcache: everything that a query needs of one image, in one file that is not parsed.

container.py   the file: header, sections, checksums          (knows nothing of what is in the sections)
records.py     what is in them about functions, lines and inlined calls: build.py makes it,
               symcache.py reads it, one address at a time, many.py many
found.py       what a query answers
program.py     what is in them for the resolver
store.py       get or build: is what is kept still true?      folder.py (locks.py, room.py), identity.py, sources.py
lazy.py        only what was asked for                        partial.py

A process may ask for one address and end: what such a query imports stays free of `typing` (icf/typed.py), `re` and
the like, and what it does not need is in modules of its own.
"""
