"""The symcache: everything that a query needs of one image, in one file that is mapped and not parsed.

container.py   the file: header, sections, checksums          (knows nothing of what is in the sections)
"""
