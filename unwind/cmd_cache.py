"""`icf cache ACTION`: build, list, verify and prune the symbol cache.

    icf cache build IMAGE...            build symcaches now, so that no query waits later
    icf cache list                      list the symcaches
    icf cache verify [WHICH...]         check that they are whole, and their images unchanged
    icf cache prune --max-size 1G       remove those that were not used for the longest time
    icf cache clear                     remove all of them, and what `icf link` keeps
    icf cache export WHICH -o FILE      write one, for another machine, or as JSON lines
    icf cache import FILE...            put exported ones into the directory
    icf cache push PLACE [WHICH...]     publish symcaches in a folder or on a server
    icf cache pull PLACE WHICH...       take published ones, of images at hand or of builds in --manifest
    icf cache fetch LIST...             find the files that the modules of `icf snapshot` need

WHICH is an image, or the start of an identity as `list` prints it; the digits of a build id are enough.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

from icf.debugfiles.options import add_debug_arguments
from icf.errors import FormatError, IcfError
from icf.garbage import collect_seldom
from icf.printable import printable, say
from unwind import cmd_cache_servers
from unwind.output import check_output
from unwind.symcache.format.container import Container
from unwind.symcache.format.sources import Sought
from unwind.symcache.store.checking import Finding, check_file, json_lines
from unwind.symcache.store.folder import DEFAULT_LIMIT_BYTES, Folder, parse_size
from unwind.symcache.store.ownership import COMPLETE
from unwind.symcache.store.publish import adopt
from unwind.symcache.store.room import Entry, clear_links, entries_of, shrink, tidy
from unwind.symcache.store.store import ensure

_FOLDER_HELP = "the directory of symcaches; by default $ICF_CACHE_DIR, $XDG_CACHE_HOME/icf or ~/.cache/icf"
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--cache-dir", metavar="DIR", help=_FOLDER_HELP)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    folder = argparse.ArgumentParser(add_help=False)  # the option may also follow the action
    folder.add_argument("--cache-dir", metavar="DIR", help=_FOLDER_HELP, default=argparse.SUPPRESS)

    def add(action: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(action, help=text, description=text, parents=[folder], allow_abbrev=False)

    build = add("build", "build the symcaches of images")
    build.add_argument("images", nargs="+", metavar="IMAGE")
    add_debug_arguments(build)
    build.add_argument("--force", action="store_true", help="rebuild even if an up-to-date symcache exists")

    listed = add("list", "list the symcaches")
    listed.add_argument("--json", action="store_true", help="one JSON document instead of a table")

    verify = add("verify", "check that symcaches are whole, and their images unchanged")
    verify.add_argument("which", nargs="*", metavar="WHICH", help="a symcache; by default all")
    verify.add_argument("--remove", action="store_true", help="remove damaged symcaches")
    verify.add_argument("--json", action="store_true", help="one JSON document instead of text")

    prune = add("prune", "remove symcaches; without options, until the directory is within its size limit")
    limit = f"$ICF_CACHE_SIZE or {DEFAULT_LIMIT_BYTES >> 30}G"
    prune.add_argument(
        "--max-size",
        metavar="SIZE",
        help=f"evict until the cache is no larger than SIZE (500M, 4G); by default {limit}",
    )
    prune.add_argument("--older-than", metavar="AGE", help="remove symcaches that were not used for AGE (30d, 12h)")
    prune.add_argument("--missing", action="store_true", help="remove symcaches whose image is gone or has changed")

    add("clear", "remove all symcaches, and what is kept of links")

    export = add("export", "write a symcache to a file")
    export.add_argument("which", metavar="WHICH")
    export.add_argument("-o", "--output", metavar="FILE", help="the file, or a directory in which it keeps its name")
    export.add_argument("--json", action="store_true", help="write its functions as JSON lines, to FILE or stdout")

    imported = add("import", "put exported files into the directory")
    imported.add_argument("files", nargs="+", metavar="FILE")

    cmd_cache_servers.add_arguments(add)


def run(args: argparse.Namespace) -> int:
    actions = {
        "build": _build,
        "list": _list,
        "verify": _verify,
        "prune": _prune,
        "clear": _clear,
        "export": _export,
        "import": _import,
        "push": _push,
        "pull": cmd_cache_servers.pull,
        "fetch": cmd_cache_servers.fetch,
    }
    return actions[args.action](Folder.chosen(args.cache_dir), args)


def _build(folder: Folder, args: argparse.Namespace) -> int:
    collect_seldom()
    failed = 0
    for path in args.images:
        try:
            sought = Sought(path, args.debug_file, tuple(args.debug_root))
            start_s = time.monotonic()
            kept, is_new = ensure(sought, folder, force=args.force)
            took = f"built in {time.monotonic() - start_s:.1f} s" if is_new else "up to date"
            print(printable(f"{path}: {took}, {_size(os.path.getsize(kept))}: {kept}"))
        except IcfError as error:
            say(f"icf: error: {error}")
            failed += 1
    return 1 if failed else 0


def _list(folder: Folder, args: argparse.Namespace) -> int:
    rows = [_row(each) for each in entries_of(folder)]
    rows.sort(key=lambda row: -row["last_used"])
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return 0
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["last_used"]))
        state = row.get("damage") and "damaged" or ("complete" if row["is_complete"] else "partial")
        place = printable(row["path"])
        print(f"{_size(row['size_bytes']):>9}  {used}  {state:8}  {row['identity']}  {place}")
    total_bytes = sum(row["size_bytes"] for row in rows)
    count = f"{len(rows)} file{'' if len(rows) == 1 else 's'}"
    print(f"{_size(total_bytes):>9}  {count} in {printable(folder.path)}, limit {_size(folder.limit_bytes)}")
    return 0


def _row(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": entry.path,
        "identity": os.path.splitext(entry.name)[0],
        "path": "",
        "size_bytes": entry.size_bytes,
        "last_used": int(entry.used_s),
        "is_complete": entry.name.endswith(COMPLETE),
    }
    try:
        kept = Container.open(entry.path)
        head = kept.head
        row["identity"], row["digest"] = str(head.identity), head.content_check.hex()
        row["path"] = str(kept.origin.get("path", ""))
    except (FormatError, OSError) as error:
        row["damage"] = str(error)
    return row


def _verify(folder: Folder, args: argparse.Namespace) -> int:
    entries = [each for which in args.which for each in _chosen(folder, which)] if args.which else entries_of(folder)
    findings: list[Finding] = []
    for entry in entries:
        finding = check_file(entry, folder)
        findings.append(finding)
        if not args.json:
            problem = f": {finding.problem}" if finding.problem else ""
            print(printable(f"{finding.state}: {entry.path}{problem}"))
        if args.remove and finding.state == "damaged":
            folder.remove(entry.name)
    if args.json:
        json.dump([each._asdict() for each in findings], sys.stdout, indent=1)
        sys.stdout.write("\n")
    return 1 if any(each.state == "damaged" for each in findings) else 0


def _prune(folder: Folder, args: argparse.Namespace) -> int:
    gone: list[Entry] = []
    if args.older_than is not None:
        limit_s = time.time() - _age(args.older_than)
        gone += [each for each in entries_of(folder) if each.used_s < limit_s]
    if args.missing:
        states = [(each, check_file(each, folder, deep=False).state) for each in entries_of(folder)]
        gone += [each for each, state in states if state != "good"]
    gone = list(dict.fromkeys(gone))
    for each in gone:
        folder.remove(each.name)
    if args.max_size is not None or not gone and args.older_than is None and not args.missing:
        gone += shrink(folder, limit_bytes=parse_size(args.max_size, "--max-size") if args.max_size else None)
    tidy(folder)
    for each in gone:
        print(f"removed {printable(each.path)}")
    return _freed(gone)


def _clear(folder: Folder, _: argparse.Namespace) -> int:
    gone = entries_of(folder)
    for each in gone:
        folder.remove(each.name)
    tidy(folder)
    return _freed(gone + clear_links(folder))


def _freed(gone: list[Entry]) -> int:
    count = f"{len(gone)} file{'' if len(gone) == 1 else 's'}"
    print(f"{count}, {_size(sum(each.size_bytes for each in gone))} freed" if gone else "nothing to remove")
    return 0


def _export(folder: Folder, args: argparse.Namespace) -> int:
    found = [each for each in _chosen(folder, args.which) if each.name.endswith(COMPLETE)]
    if len(found) != 1:
        names = ", ".join(os.path.splitext(each.name)[0] for each in found) or "partial ones alone"
        raise IcfError(f"{args.which}: is not one symcache but {names}", hint="name it as 'icf cache list --json' does")
    check_output(args)
    kept = Container.open(found[0].path)
    if args.json:
        if args.output is None:
            sys.stdout.writelines(json_lines(kept))
        else:
            with open(args.output, "w", encoding="utf-8") as out:
                out.writelines(json_lines(kept))
        return 0
    if args.output is None:
        raise IcfError("a symcache is binary", hint="name a file with -o, or read it with --json")
    kept.check_all()
    path = os.path.join(args.output, found[0].name) if os.path.isdir(args.output) else args.output
    shutil.copyfile(found[0].path, path)
    return 0


def _import(folder: Folder, args: argparse.Namespace) -> int:
    for path in args.files:
        print(printable(folder.path_of(adopt(folder, path))))
    return 0


def _push(folder: Folder, args: argparse.Namespace) -> int:
    entries = [each for which in args.which for each in _chosen(folder, which)] if args.which else entries_of(folder)
    return cmd_cache_servers.push(folder, args, entries)


def _chosen(folder: Folder, which: str) -> Iterator[Entry]:
    """Yield the entries of an image, or those whose identity starts like that. Raise IcfError if there are none."""
    entries = entries_of(folder)
    if os.path.exists(which):
        stem = str(folder.recognize(which))
        found = [each for each in entries if os.path.splitext(each.name)[0] == stem]
    else:
        starts = (which, f"build-id-{which}", f"content-{which}")
        found = [each for each in entries if which and each.name.startswith(starts)]
    if not found:
        raise IcfError(f"{which}: no symcache in {folder.path}", hint="'icf cache list' prints what there is")
    yield from found


def _size(size_bytes: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >> shift:
            return f"{size_bytes / (1 << shift):.1f} {unit}"
    return f"{size_bytes} B"


def _age(text: str) -> float:
    matched = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    if matched is None:
        raise IcfError(f"--older-than: {text!r} is not an age such as 30d or 12h")
    return int(matched[1]) * _AGES[matched[2]]
