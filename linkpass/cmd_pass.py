"""`icf pass IMAGE`: write the call-site tables into a linked image."""

from __future__ import annotations

import argparse
import gc
import sys

from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError
from icf.image import is_pe_file
from icf.overwriting import refuse_to_overwrite
from icf.printable import printable, say
from linkpass.options import Options
from linkpass.pipeline import SWITCH_INTERVAL_S, run_pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="an executable or shared object, linked with --icf")
    parser.add_argument("-o", dest="out", metavar="OUT", help="the file to write; by default IMAGE is replaced")
    add_debug_arguments(parser)
    parser.add_argument("--debug-out", metavar="FILE", help="the debug file to write; by default it is replaced, too")
    parser.add_argument("--in-image", action="store_true", help="put the tables into IMAGE, not into its debug file")
    parser.add_argument("--icf-report", metavar="FILE", help="the output of the linker with --print-icf-sections")
    parser.add_argument(
        "--objects",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="objects and archives of the link, in its order; @FILE reads a response file",
    )
    parser.add_argument("--link-map", metavar="FILE", help="the linker's -Map: names the objects of the link")
    parser.add_argument(
        "--keep-unique-out",
        metavar="FILE",
        help="write, as linker options, the fewest functions that must stay unfolded for every frame to have one name",
    )
    parser.add_argument(
        "--drop-relocations", action="store_true", help="remove the relocations that --emit-relocs kept"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads; by default one for each processor")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing if all went well")


def run(args: argparse.Namespace) -> int:
    if is_pe_file(args.image):
        return _run_pe(args)
    gc.disable()  # all objects are used until the end
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    objects = list(args.objects)
    if args.link_map is not None:
        from icf.linkinputs.linkmap import parse_link_map

        objects += parse_link_map(args.link_map)
    read = [*objects, args.icf_report, args.link_map]
    refuse_to_overwrite(args.keep_unique_out, [args.image, args.debug_file, *read])
    for out in (args.out, args.debug_out):
        refuse_to_overwrite(out, read)
    options = Options(
        out=args.out,
        debug_file=args.debug_file,
        debug_roots=tuple(args.debug_root),
        debug_out=args.debug_out,
        in_image=args.in_image,
        icf_report=args.icf_report,
        objects=tuple(objects),
        named_objects=tuple(args.objects),
        drop_relocations=args.drop_relocations,
        threads=args.threads,
        keep_unique_out=args.keep_unique_out,
        is_durable=True,
    )
    summary = run_pass(args.image, options)
    for error in summary.unread_units:
        say(f"icf: warning: {error}: this unit is not used as evidence")
    if summary.missing_debug_files:
        count, first = len(summary.missing_debug_files), summary.missing_debug_files[0]
        others = f" (and {count - 1} more files)" if count > 1 else ""
        say(f"icf: warning: {first}{others}: its functions are known by their symbols only")
    if summary.undescribed:
        say(
            f"icf: warning: {summary.image}: {summary.undescribed} functions may be merged with functions that the"
            " linker removed without a trace; to name them give all link inputs (--objects), or with gold --icf-report"
        )
    from linkpass.compiler_merging import merging_note
    from linkpass.summary import summary_lines

    say(*merging_note(summary.image, summary.merging_compilers))
    if summary.keep_unique is not None and (linker := summary.keep_unique.linker).lacks_keep_unique:
        say(f"icf: warning: {args.keep_unique_out}: {linker.name} has no option --keep-unique (lld and gold have one)")
    if summary.keep_unique is not None and (names := summary.keep_unique.unwritable):
        say(
            f"icf: warning: {args.keep_unique_out}: left out, as an option cannot name them safely:"
            f" {', '.join(name or '(no name)' for name in names)}"
        )
    if args.json:
        import json
        from dataclasses import asdict

        document = asdict(summary) | {"unread_units": [str(error) for error in summary.unread_units]}
        if summary.keep_unique is not None:
            functions = [kept._asdict() for kept in summary.keep_unique.functions]
            shown = {"functions": functions, "linker": summary.keep_unique.linker.name}
            total = {"size_bytes": summary.keep_unique.size_bytes}
            document["keep_unique"] = summary.keep_unique._asdict() | shown | total
        print(json.dumps(document))
    elif not args.quiet:
        print("\n".join(summary_lines(summary)))
    return 0


_ELF_ONLY = ("debug_out", "icf_report", "link_map", "keep_unique_out", "in_image", "drop_relocations")


def _run_pe(args: argparse.Namespace) -> int:
    from linkpass.pe.run import run_pass as run_pe_pass
    from linkpass.pe.run import summary_lines, warnings_of

    for name in _ELF_ONLY:
        if getattr(args, name):
            raise IcfError(f"--{name.replace('_', '-')} is about ELF images, {args.image} is a PE image")
    summary = run_pe_pass(args.image, args.out, args.debug_file, args.debug_root, args.objects)
    say(*(f"icf: warning: {each}" for each in warnings_of(summary)))
    if args.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(summary)))
    elif not args.quiet:
        print("\n".join(map(printable, summary_lines(summary))))
    return 0
