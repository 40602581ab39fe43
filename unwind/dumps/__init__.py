"""What was copied of a process: registers of its threads, memory, and the files that were mapped.

dump.py      the types
memory.py    the memory that a file has a copy of
core.py      core files; their notes: `core_notes`; their images where no note lists them: `mapped_images`
minidump.py  minidumps; their container: `minidump_file`, their modules: `minidump_modules`, what ended a process of
             Windows: `windows_exceptions`
images.py    the images of the mapped files, found by build id, which `first_page` reads
live.py      copies the stacks of a running process, with `ptrace`; its images: `live_images`
loaded.py    an image at its place
walk.py      unwinds the threads
"""
