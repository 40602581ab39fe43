"""`icf stacks`: the stacks of all threads of a core file, a minidump or a running process.

What a kind of input needs is imported for it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError
from icf.model import Verdict
from icf.printable import say
from unwind.options import add_cache_options, add_module_root_option, add_output_option
from unwind.output import open_output
from unwind.target.search import SearchPaths
from unwind.writers.backtrace import BacktraceWriter
from unwind.writers.json_lines import JsonWriter

if TYPE_CHECKING:
    from unwind.target.thread_stacks import ResolvedThread


def add_arguments(parser: ArgumentParser) -> None:
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("file", metavar="FILE", nargs="?", help="a core file or a minidump, as its content tells")
    sources.add_argument("--core", metavar="FILE", help="a core file: of a process that crashed, or of gcore")
    sources.add_argument("--pid", metavar="PID", type=int, help="a running process, which stops for milliseconds")
    sources.add_argument(
        "--minidump", metavar="FILE", help="a minidump of Crashpad, Breakpad or lldb on Linux, or of Windows"
    )
    parser.add_argument(
        "-e",
        "--exe",
        metavar="IMAGE",
        help="the image to take for the module of its build, or of its name where its build is not known",
    )
    add_module_root_option(parser)
    add_debug_arguments(parser)
    add_cache_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each thread")
    add_output_option(parser, "the results")
    parser.add_argument("--no-vptr", action="store_true", help="ignore the vtable pointers of objects")
    parser.add_argument("--no-lines", action="store_true", help="do not look up files, lines and inlined functions")


def run(args: Namespace) -> int:
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    is_any_known, with_lines = False, not args.no_lines
    as_text, as_json = BacktraceWriter(with_lines=with_lines), JsonWriter(with_modules=True, with_lines=with_lines)
    with ExitStack() as opened:
        threads = _open(args, search, opened)
        out = opened.enter_context(open_output(args))
        for walked, resolved in threads:
            is_any_known = is_any_known or any(each.verdict is not Verdict.UNKNOWN for each in resolved.answers)
            if args.json:
                out.write(as_json.write(resolved))
            else:
                out.write(as_text.write(walked, resolved).encode("utf-8", "surrogateescape"))
    if not is_any_known:
        say("icf: every frame of every stack is unknown")
    return 0 if is_any_known else 1


def _open(args: Namespace, search: SearchPaths, opened: ExitStack) -> Iterator[ResolvedThread]:
    """Return the threads of what the user has named."""
    with_lines, use_vptrs = not args.no_lines, not args.no_vptr
    if args.pid is not None:
        if args.debug_file is not None:
            raise IcfError("--debug-file is for dumps", hint="of a process, name folders with --debug-root")
        from unwind.target.live_stacks import LiveStacks

        return opened.enter_context(LiveStacks(args.pid, search, with_lines=with_lines, use_vptrs=use_vptrs)).threads()
    from icf.filebytes import FileBytes
    from unwind.dumps.minidump_file import MAGIC
    from unwind.process.image_finder import ImageFinder
    from unwind.target.dumped import DumpStacks

    images = opened.enter_context(ImageFinder(args.module_root, args.debug_root, args.exe))
    content = FileBytes.open(args.core or args.minidump or args.file)
    if args.minidump is not None or (args.file is not None and bytes(content[: len(MAGIC)]) == MAGIC):
        from unwind.dumps.minidump import read_minidump

        dump = read_minidump(content)
    else:
        from unwind.dumps.core import read_core

        dump = read_core(content)
    return opened.enter_context(DumpStacks(dump, search, images, with_lines=with_lines, use_vptrs=use_vptrs)).threads()
