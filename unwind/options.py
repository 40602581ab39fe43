"""Options that several verbs have."""

from __future__ import annotations

from argparse import ArgumentParser, _ArgumentGroup


def add_cache_options(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Add `--cache-dir` and `--shared-cache`."""
    parser.add_argument("--cache-dir", metavar="DIR", help="the directory of symcaches ($ICF_CACHE_DIR, ~/.cache/icf)")
    parser.add_argument(
        "--shared-cache",
        metavar="DIR",
        action="append",
        default=[],
        help="look for symcaches there, too: a directory that others fill, which is only read; may be repeated",
    )
