"""What runs on stacks and addresses: who is it, really?

    stacks/      stacks as text to addresses, answers to text and JSON
    modules/     the images that stacks come from: of `-e`, a list or a process; what they define for each other;
                 maps and placing: mappings, and where they say that an image lies
    programs/    what is known of one image: bodies, records, code; read from its tables, or another tool's
    resolve/     stacks to answers: chain finds what fits all frames, relations what a call allows, dispatch and
                 vptrs where pointers lead, callgraph and tailpaths what jumps leave out, explain why
    symbolize/   addresses to names, inlined functions and lines; how other tools ask and answer
    symcache/    what is kept of an image between runs: all of the above starts from there
    live/        processes that run
    disasm/      machine code with what its calls mean

Commands are in cmd_*. What other programs use is here, and imported when it is asked for:

    from unwind import Resolver, SymCache, Symbolizer, open_or_build
"""

from __future__ import annotations

TYPE_CHECKING = False  # the one of `typing` costs its import
if TYPE_CHECKING:
    from unwind.resolve.resolver import Resolver as Resolver
    from unwind.symbolize.symbolizer import Symbolizer as Symbolizer
    from unwind.symcache.store import open_by_build_id as open_by_build_id
    from unwind.symcache.store import open_or_build as open_or_build
    from unwind.symcache.symcache import SymCache as SymCache

_HOME = {
    "Resolver": "unwind.resolve.resolver",
    "SymCache": "unwind.symcache.symcache",
    "Symbolizer": "unwind.symbolize.symbolizer",
    "open_by_build_id": "unwind.symcache.store",
    "open_or_build": "unwind.symcache.store",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unwind' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
