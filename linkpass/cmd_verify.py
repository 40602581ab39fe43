"""`icf verify IMAGE`: check the tables of an image against its machine code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.options import add_debug_arguments
from icf.printable import printable
from icf.tables.load import load_tables
from linkpass.tables.verify import check_present, verify_image

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="an executable or shared object with tables")
    parser.add_argument(
        "--second-reader",
        action="store_true",
        help="read the tables again, with pyelftools; check them, and compare them with what the first reader has",
    )
    add_debug_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: Namespace) -> int:
    with open_with_debug(args.image, args.debug_file, args.debug_root, needs_code=True) as image:
        if args.second_reader:
            from linkpass.second_reader.check import verify_again  # imports pyelftools

            tables = check_present(image)
            problems = verify_again(image, tables)
        else:
            problems = verify_image(image)
            tables = load_tables(image)
    if args.json:
        sizes = {"records": len(tables.direct), "virtual_calls": len(tables.virtual)}
        print(json.dumps({"image": args.image, **sizes, "problems": problems}))
    else:
        for problem in problems:
            print(printable(f"{args.image}: {problem}"))
        counts = (
            f"{len(tables.direct)} call sites, {len(tables.icf.tail_calls)} tail calls, "
            f"{len(tables.virtual)} virtual calls, {len(tables.icf.vtables)} vtables"
        )
        agree = "both readers agree, and symbols, DIEs and code" if args.second_reader else "all agree with the code"
        outcome = f"{counts}: {f'{len(problems)} problems' if problems else agree}"
        is_empty = not (len(tables.direct) or len(tables.virtual) or any(fold.merged for fold in tables.icf.classes))
        print(printable(f"{args.image}: {'no merged functions recorded' if is_empty and not problems else outcome}"))
    return 1 if problems else 0
