"""`icf verify IMAGE`: check the tables of an image against its machine code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments, open_with_debug
from icf.printable import printable
from icf.tables.load import load_tables
from linkpass.tables.verify import verify_image

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="an executable or shared object with tables")
    add_debug_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: Namespace) -> int:
    with open_with_debug(args.image, args.debug_file, args.debug_root, needs_code=True) as image:
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
        outcome = f"{counts}: {f'{len(problems)} problems' if problems else 'all agree with the code'}"
        is_empty = not (len(tables.direct) or len(tables.virtual) or any(fold.merged for fold in tables.icf.classes))
        print(printable(f"{args.image}: {'no merged functions recorded' if is_empty and not problems else outcome}"))
    return 1 if problems else 0
