"""Which frames belong to a call that calls back: `qsort`, from the frame that calls it to the comparator.

    sort_by_age     call qsort@plt, given by_age
    qsort           call merge_sort                 of the C library
    merge_sort      call *%rax                      of the C library, entered by a direct call
    a comparator    is by_age

A function that the C library's `qsort` calls through a pointer, or that one calls which it calls directly, is the one
that it was given, or what that tail-calls. What else the library calls of other modules it calls by a name, so a
`malloc` of the program cannot be taken for one. The frames say so only as long as

    the import can be bound to the C library alone       all modules are known, and no other one defines it
    all frames between are in that library               no handler of a signal, no loader, no other module
    each of them is known to follow a call               no frame that a signal interrupted
    no frame may be missing between any of them          else it does not apply
"""

from __future__ import annotations

from unwind.process.process import Process
from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.resolve.places import Place


def library_of_call(process: Process, caller: Body, return_address: int) -> Program | None:
    """Return the C library if the call before `return_address` is one of its functions that call back.

    None as well where it is not known what that is given. The code calls the import, whatever a merged caller was
    written to call.
    """
    program = caller.program
    if not program.has_callbacks or not program.given(return_address, caller):
        return None
    site = program.code.call_site(return_address)
    return process.c_library_with(site.symbol) if site.kind is SiteKind.IMPORT else None


def is_frame_of(library: Program, program: Program | None, place: Place) -> bool:
    """Return whether a frame at a place in `program` waits for a call that it made in the library."""
    is_one = place.body is None or place.body.settled
    return program is library and is_one and place.return_address != 0 and not place.is_trampoline
