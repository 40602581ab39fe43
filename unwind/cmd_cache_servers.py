"""The actions of `icf cache` that ask other machines.

icf cache push PLACE [WHICH...]     publish symcaches in a folder or on a server
icf cache pull PLACE WHICH...       take published ones, of images at hand or of builds in --manifest
icf cache fetch LIST...             find the files that the modules of `icf snapshot` need
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable

from icf.errors import IcfError
from icf.printable import printable, say
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.ownership import COMPLETE
from unwind.symcache.store.room import Entry

_PLACE_HELP = "a directory, or the URL of one"

Add = Callable[[str, str], argparse.ArgumentParser]


def add_arguments(add: Add) -> None:
    """Add the actions."""
    push = add("push", "publish symcaches in a folder or on a server, and print a manifest of them")
    push.add_argument("place", metavar="PLACE", help=f"{_PLACE_HELP}, to which files can be put")
    push.add_argument("which", nargs="*", metavar="WHICH", help="a symcache; by default all complete ones")

    pull = add("pull", "take published symcaches")
    pull.add_argument("place", metavar="PLACE", help=_PLACE_HELP)
    pull.add_argument("which", nargs="+", metavar="WHICH", help="an image, or with --manifest the start of an identity")
    pull.add_argument("--manifest", metavar="FILE", help="what 'icf cache push' has printed, from a source you trust")

    fetch = add("fetch", "find the files that the modules of a list need; servers are asked for those not here")
    fetch.add_argument("lists", nargs="+", metavar="LIST", help="written by icf snapshot")
    fetch.add_argument("--module-root", metavar="DIR", action="append", default=[], help="search for images there")
    fetch.add_argument("--debug-root", metavar="DIR", action="append", default=[], help="search for debug files there")
    fetch.add_argument("--json", action="store_true", help="one JSON document instead of text")


def push(folder: Folder, args: argparse.Namespace, entries: list[Entry]) -> int:
    """Publish entries."""
    from unwind.symcache.store.publish import publish

    for name in dict.fromkeys(each.name for each in entries if each.name.endswith(COMPLETE)):
        print(publish(folder, name, args.place))
    return 0


def pull(folder: Folder, args: argparse.Namespace) -> int:
    """Take the symcaches of images at hand, and of builds that a manifest has."""
    from unwind.symcache.store.publish import read_manifest, take

    manifest = read_manifest(args.manifest) if args.manifest is not None else {}
    failed = 0
    for which in args.which:
        try:
            for name, digest in _named(folder, which, manifest):
                print(printable(take(folder, name, args.place, digest)))
        except IcfError as error:
            say(f"icf: error: {error}", *([f"hint: {error.hint}"] if error.hint else []))
            failed += 1
    return 1 if failed else 0


def _named(folder: Folder, which: str, manifest: dict[str, str]) -> list[tuple[str, str]]:
    """Return name and SHA-256 of what WHICH means; the digest is "" for an image."""
    if os.path.exists(which):
        return [(f"{folder.recognize(which)}{COMPLETE}", "")]
    starts = (which, f"build-id-{which}", f"content-{which}", f"pe-{which}")
    found = [(name, digest) for name, digest in manifest.items() if name.startswith(starts)]
    if not found:
        raise IcfError(f"{which}: is not an image, and not in a manifest", hint="--manifest FILE says what to trust")
    return found


def fetch(_: Folder, args: argparse.Namespace) -> int:
    """Find the files of lists."""
    from unwind.process.image_finder import ImageFinder
    from unwind.process.module_list import read_modules
    from unwind.snapshot.files import NeededFile, needed_files

    found: list[NeededFile] = []
    for path in args.lists:
        with ImageFinder(args.module_root, args.debug_root) as images:
            for module in read_modules(path, with_addresses=False):
                for each in needed_files(module, images, args.debug_root):
                    found.append(each)
                    if not args.json:
                        print(printable(f"{each.kind:5}  {each.module}: {each.path or f'missing: {each.problem}'}"))
    if args.json:
        json.dump([each._asdict() for each in found], sys.stdout, indent=1)
        sys.stdout.write("\n")
    return 1 if any(not each.path for each in found) else 0
