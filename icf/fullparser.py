"""argparse as `icf` has it: for help, for mistakes, and for command lines that are not plain (arguments.py)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

from icf.arguments import HIDDEN


def full_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser without options yet."""
    return argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=_HelpFormatter, allow_abbrev=False
    )


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Leaves out what is hidden. Knows how wide the terminal is; argparse would import shutil to find out."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        try:
            width = int(columns) if columns.isdecimal() else os.get_terminal_size(1).columns
        except OSError:
            width = 0
        super().__init__(prog, width=(width or 80) - 2)

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action], *others: Any) -> None:
        super().add_usage(usage, [action for action in actions if action.help != HIDDEN], *others)

    def add_argument(self, action: argparse.Action) -> None:
        if action.help != HIDDEN:
            super().add_argument(action)
