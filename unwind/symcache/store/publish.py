"""Publish symcaches in a folder or on a server, and take them from there: each is made once for all machines.

    https://symbols.example.com/symcaches/build-id-91ab..-23aa...symcache

The name has the build id of the image and the digest of its content, so a published file never changes. A symcache
says what functions are called, so one is taken only for an image at hand, whose digest is computed here and must be the
one in the name and in the file; or by a manifest that the user trusts, which has the SHA-256 of the file.

    5f7a..  build-id-91ab..-23aa...symcache      a line for each file, as sha256sum writes them

It is then read as a whole before it is kept: its checksums must be right, and all of it must be decodable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory
from typing import BinaryIO

from icf import __version__
from icf.errors import IcfError
from icf.filebytes import FileBytes
from icf.newfile import NewFile
from unwind.symcache.format.container import COMPLETE as IS_COMPLETE
from unwind.symcache.format.container import Container
from unwind.symcache.format.sources import SECTION, Sources
from unwind.symcache.store.checking import check_content
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.ownership import COMPLETE, is_entry

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](\S+)")
_PIECE_BYTES = 1 << 20
_SERVERS = ("http://", "https://")


def publish(folder: Folder, name: str, place: str) -> str:
    """Copy a symcache to a folder or server; return its line for a manifest.

    Args:
        folder: the user's own directory.
        name: of the entry.
        place: a directory, or a URL to which files can be put.

    Raises:
        IcfError: the symcache is damaged, or the place does not take it.
    """
    from hashlib import sha256

    from icf.remote.debuginfod import limits
    from icf.remote.download import is_url, upload

    path = folder.path_of(name)
    kept = Container.open(path, is_own=True)
    kept.check_all()
    with open(path, "rb") as file:
        content = file.read()
    if is_url(place):
        upload(f"{place.rstrip('/')}/{name}", content, limits())
    else:
        _write(os.path.join(place, name), content)
    return f"{sha256(content).hexdigest()}  {name}"


def take(folder: Folder, name: str, place: str, digest: str = "") -> str:
    """Take a published symcache into the user's own directory; return its path there.

    Args:
        folder: the user's own directory.
        name: of the entry: identity and content digest of an image at hand, or as a manifest has it.
        place: a directory, a URL, or one of an object store that fsspec knows.
        digest: SHA-256 of the file in hexadecimal; "" where the image is at hand.

    Raises:
        IcfError: it is not there, or not what it must be.
    """
    from icf.remote.debuginfod import limits
    from icf.remote.download import download, is_url

    with TemporaryDirectory(prefix="icf-") as scratch:
        path = os.path.join(scratch, name)
        source = os.path.join(place.rstrip("/"), name)
        with open(path, "wb") as out:
            if is_url(place) and not place.startswith(_SERVERS):
                _copy_from_store(source, out)
            elif is_url(place):
                if not download(source, out.write, limits()):
                    raise IcfError(f"{source}: not there")
            else:
                for piece in FileBytes.open(source).pieces(_PIECE_BYTES):
                    out.write(piece)
        if digest and _digest(path) != digest.lower():
            raise IcfError(f"{source}: has SHA-256 {_digest(path)}, the manifest has {digest.lower()}")
        try:
            adopt(folder, path, name)
        except IcfError as error:
            raise IcfError(str(error).replace(path, source)) from error
    return folder.path_of(name)


def adopt(folder: Folder, path: str, name: str = "") -> str:
    """Copy the symcache at a path into the directory, once it has been read as a whole; return its name there.

    Args:
        folder: the user's own directory.
        path: of the file.
        name: that it must have; "": whatever image it is of.

    Raises:
        IcfError: it is damaged, of another image or version.
    """
    given = Container.open(path)
    given.check_all()
    if not given.head.flags & IS_COMPLETE:
        raise IcfError(f"{path}: is not complete", hint="'icf cache export' writes what can be imported")
    check_content(given, is_complete=True)
    sources = Sources.parse(given.section(SECTION), path)
    own = f"{given.head.identity}-{given.head.content_check.hex()}{COMPLETE}"
    if name and own != name:
        raise IcfError(f"{path}: is of {own.removesuffix(COMPLETE)}, not {name.removesuffix(COMPLETE)}")
    if name and sources.builder != __version__:
        raise IcfError(f"{path}: was made by version {sources.builder}, this is {__version__}")
    with open(path, "rb") as file:
        folder.write(own, iter(partial(file.read, _PIECE_BYTES), b""))
    return own


def read_manifest(path: str) -> dict[str, str]:
    """Return the SHA-256 of each file that a manifest lists, by name. Raises `IcfError` for a line that is wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = list(_lines(file.read(), path))
    except (OSError, UnicodeError) as error:
        raise IcfError(f"{path}: {getattr(error, 'strerror', None) or 'is not text'}") from error
    return {name: digest for digest, name in lines}


def _lines(text: str, path: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None or not is_entry(found[2]):
            raise IcfError(f"{path}:{number}: must be a SHA-256 and the name of a symcache")
        yield found[1], found[2]


def _copy_from_store(source: str, out: BinaryIO) -> None:
    """Copy a file of an object store; `IcfError` where that is not possible."""
    try:
        import fsspec
    except ImportError as error:
        raise IcfError(f"{source}: needs fsspec, which is not installed", hint="pip install fsspec") from error
    try:
        with fsspec.open(source, "rb") as file:
            for piece in iter(partial(file.read, _PIECE_BYTES), b""):
                out.write(piece)
    except FileNotFoundError as error:
        raise IcfError(f"{source}: not there") from error
    except (OSError, ValueError, ImportError) as error:  # of a protocol that fsspec or its plug-ins do not know
        raise IcfError(f"{source}: {' '.join(str(error).split())}") from error


def _digest(path: str) -> str:
    from hashlib import file_digest

    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _write(path: str, content: bytes) -> None:
    try:
        with NewFile(os.path.dirname(path), ".") as out:
            with open(out.fd, "wb", closefd=False) as file:
                file.write(content)
            os.fchmod(out.fd, 0o444)
            os.replace(out.name(), path)
    except OSError as error:
        raise IcfError(f"{path}: {(error.strerror or str(error)).lower()}") from error
