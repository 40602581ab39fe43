"""`icf snapshot`: save which modules a process had loaded where, with what identifies each.

    icf snapshot --pid PID -o modules.json       a running process
    icf snapshot --core CORE -o modules.json     a core file; --minidump FILE: of Linux or Windows
    icf snapshot perf.data -o modules.json       a recording: the modules that its samples need
    icf snapshot shop libshop.so app.exe         files by themselves: no load addresses

On another machine `icf resolve --modules modules.json` then finds symbols by identity: in --module-root, in
--debug-root, on the servers that DEBUGINFOD_URLS names.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from icf.errors import IcfError
from unwind.options import add_module_root_option, add_output_option
from unwind.output import open_output
from unwind.process.image_finder import ImageFinder
from unwind.snapshot.modules import SnapshotModule, write_modules


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--core", metavar="FILE", help="a core file")
    parser.add_argument("--minidump", metavar="FILE", help="a minidump, of Linux or Windows")
    parser.add_argument("--pid", metavar="PID", type=int, help="a running process; it is not stopped")
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="recordings in any format that icf resolve reads, modules.log of drmemtrace, ELF and PE images",
    )
    parser.add_argument(
        "--process", metavar="PID", type=int, help="of a recording of several processes, the modules of this one"
    )
    add_module_root_option(parser)
    add_output_option(parser, "the list")


def run(args: Namespace) -> int:
    named = [each for each in (args.core, args.minidump, args.pid, args.files or None) if each is not None]
    if len(named) != 1:
        raise IcfError("needs one of --pid, --core, --minidump and FILE")
    modules = _modules(args)
    if args.process is not None:
        pids = {each.pid for each in modules}
        if pids != {None} and args.process not in pids:
            raise IcfError(f"no sample is of process {args.process}")
        modules = [_alone(each) for each in modules if each.pid in (None, args.process)]
    if not modules:
        raise IcfError("there is no module")
    with open_output(args) as out:
        out.write(write_modules(modules).encode())
    return 0


def _modules(args: Namespace) -> list[SnapshotModule]:
    if args.pid is not None:
        from unwind.snapshot.process import modules_of_process

        return modules_of_process(args.pid)
    if args.files:
        from unwind.snapshot.recorded import modules_of_file

        return [each for path in args.files for each in modules_of_file(path, ImageFinder(args.module_root))]
    from unwind.snapshot.process import modules_of_core, modules_of_minidump

    with ImageFinder(args.module_root) as finder:
        if args.core is not None:
            return modules_of_core(args.core, finder)
        return modules_of_minidump(args.minidump, finder)


def _alone(module: SnapshotModule) -> SnapshotModule:
    """Return a module as of a list that has one process."""
    from dataclasses import replace

    return replace(module, pid=None)
