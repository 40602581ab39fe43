"""Options that several verbs have."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup

from icf.errors import IcfError
from unwind.samples.recording import Losses, Recording


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


def add_module_root_option(parser: ArgumentParser) -> None:
    """Add `--module-root`."""
    parser.add_argument(
        "--module-root",
        metavar="DIR",
        action="append",
        default=[],
        help="another directory to search for modules, by build id and by path; may be repeated",
    )


def add_output_option(parser: ArgumentParser, what: str) -> None:
    """Add `--output`; `what` is written to it."""
    parser.add_argument("-o", "--output", metavar="FILE", help=f"write {what} to a file, which replaces an older one")


def add_lossy_option(parser: ArgumentParser) -> None:
    """Add `--lossy`."""
    parser.add_argument(
        "--lossy",
        choices=[each.value for each in Losses],
        help="frames that the stacks may lack: none, if the unwinder has read .eh_frame; fp, those that a walk along"
        " frame pointers leaves out; any, one between each two (by default what the format says, and fp where it does"
        " not; none for addresses alone)",
    )


def losses_of(args: Namespace, by_format: Losses) -> Losses:
    """Return the losses that `--lossy` names, or those of the format."""
    return by_format if args.lossy is None else Losses(args.lossy)


def add_value_option(parser: ArgumentParser, what: str) -> None:
    """Add `--value`; `what` shows one of a recording's values."""
    parser.add_argument(
        "--value",
        metavar="NAME",
        help=f"which of a recording's values {what}; by default the first event of perf, the default of a pprof"
        " profile, `inuse_space` of a heap profile, else the last one",
    )


def choose_value(args: Namespace, recording: Recording, path: str) -> None:
    """Let the recording show the value that `--value` names; `IcfError` if it has none of this name."""
    if args.value is not None:
        names = [value.name for value in recording.values]
        if args.value not in names:
            raise IcfError(f"{path}: has no value {args.value!r}", hint=f"it has {', '.join(names)}")
        recording.shown = names.index(args.value)
