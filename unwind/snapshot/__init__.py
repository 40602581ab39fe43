"""What a recorder saves of the modules of a process, so that their symbols can be found on another machine.

modules      an entry of the list, as JSON
process      the modules of a running process, of a core file, of a minidump
recorded     those of a recording, of `modules.log`, and files by themselves
windows      those of a minidump of Windows
"""
