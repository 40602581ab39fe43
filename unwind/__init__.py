"""From stacks and addresses to names.

    samples/     stacks and recordings as they are read
    program/     what one image says: bodies, call-site records, code
    symcache/    one file per image that answers for every address: format, reader, builder, store
    process/     images at run-time addresses: modules, processes that run (live/), functions made at run time (jit/)
    walk/        stacks from registers and memory
    dumps/       core files, copies of processes: threads, memory, images
    objects/     parameters of the functions in a stack, objects of its methods
    callgraph/   calls as a networkx graph
    symbolize/   addresses to names, inlined functions and lines; how other tools ask and answer
    disasm/      machine code with what its calls mean
    resolve/     stacks to answers: chain finds what fits all frames, relations what a call allows, vptrs which vtable
                 pointers count, reach and tailpaths what jumps leave out, explain why
    second_reader/  a second resolver, slow and plain, to compare with
    readers/     one file for each format of stacks and recordings
    writers/     one file for each format of results
    target/      opens an image, a module list, a recording or a process, and joins all of the above
    debugger/    the plug-ins of debuggers, and the helper process that answers them

Each folder imports only from those above it in this list (tests/test_layering.py).
Commands are in cmd_*. `__all__` is the public interface; everything else may change between versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unwind.callgraph.calls import graph as graph
    from unwind.program.frame import Frame as Frame
    from unwind.readers.pcs import read_pcs as read_pcs
    from unwind.resolve.resolved import Resolved as Resolved
    from unwind.resolve.resolver import Resolver as Resolver
    from unwind.resolve.vptrs import read_vptrs as read_vptrs
    from unwind.samples.recording import Losses as Losses
    from unwind.samples.recording import RecordedFrame as RecordedFrame
    from unwind.samples.recording import RecordedModule as RecordedModule
    from unwind.samples.recording import RecordedProcess as RecordedProcess
    from unwind.samples.recording import Sample as Sample
    from unwind.samples.stack import Stack as Stack
    from unwind.symbolize.answer import Answer as Answer
    from unwind.symbolize.answer import Candidate as Candidate
    from unwind.symbolize.reasons import Reason as Reason
    from unwind.symbolize.reasons import ReasonCode as ReasonCode
    from unwind.symbolize.symbolizer import Symbolizer as Symbolizer
    from unwind.symcache.reader.found import Located as Located
    from unwind.symcache.reader.symcache import SymCache as SymCache
    from unwind.symcache.store.store import open_by_build_id as open_by_build_id
    from unwind.symcache.store.store import open_or_build as open_or_build
    from unwind.target.annotate import annotate as annotate
    from unwind.target.live_symbolizer import LiveSymbolizer as LiveSymbolizer
    from unwind.target.live_symbolizer import open_process as open_process
    from unwind.target.opening import open_resolver as open_resolver
    from unwind.target.recording_file import open_recording as open_recording

_HOME = {  # imported on first use
    "Answer": "unwind.symbolize.answer",
    "Candidate": "unwind.symbolize.answer",
    "Frame": "unwind.program.frame",
    "LiveSymbolizer": "unwind.target.live_symbolizer",
    "Located": "unwind.symcache.reader.found",
    "Reason": "unwind.symbolize.reasons",
    "ReasonCode": "unwind.symbolize.reasons",
    "Losses": "unwind.samples.recording",
    "RecordedFrame": "unwind.samples.recording",
    "RecordedModule": "unwind.samples.recording",
    "RecordedProcess": "unwind.samples.recording",
    "Resolved": "unwind.resolve.resolved",
    "Resolver": "unwind.resolve.resolver",
    "Sample": "unwind.samples.recording",
    "Stack": "unwind.samples.stack",
    "SymCache": "unwind.symcache.reader.symcache",
    "Symbolizer": "unwind.symbolize.symbolizer",
    "annotate": "unwind.target.annotate",
    "graph": "unwind.callgraph.calls",
    "open_by_build_id": "unwind.symcache.store.store",
    "open_or_build": "unwind.symcache.store.store",
    "open_process": "unwind.target.live_symbolizer",
    "open_recording": "unwind.target.recording_file",
    "open_resolver": "unwind.target.opening",
    "read_pcs": "unwind.readers.pcs",
    "read_vptrs": "unwind.resolve.vptrs",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unwind' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
