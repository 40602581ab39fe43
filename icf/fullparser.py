"""argparse as `icf` has it: for help, for mistakes, and for command lines that are not plain (arguments.py)."""

from __future__ import annotations

import argparse
import os


def full_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser without options yet."""
    return argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=_HelpFormatter, allow_abbrev=False
    )


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Knows how wide the terminal is; argparse would import shutil to find out, for each start of a verb."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        try:
            width = int(columns) if columns.isdecimal() else os.get_terminal_size(1).columns
        except OSError:
            width = 0
        super().__init__(prog, width=(width or 80) - 2)
