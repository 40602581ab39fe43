"""The supplementary file: debug information that `dwz -m` found in several files and moved to one.

`.gnu_debugaltlink` or `.debug_sup` names it, relative to the file that has the section; else it is in a tree of
build ids, or on a debuginfod server. Its build id, or in DWARF 5 its checksum, has to match the link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from icf.debugfiles.links import SupplementaryLink, checksum_of, parse_supplementary
from icf.debugfiles.search import SYSTEM_ROOT, build_id_path, has_content, path_from_servers
from icf.elf.image import Image
from icf.errors import IcfError


def open_supplementary(image: Image) -> Image | None:
    """Return the supplementary file of `image`, None if it needs none.

    Without the file most names are missing, so no answer can name a function. Raise IcfError if it does not exist.
    """
    link = parse_supplementary(image.debug)
    if link is None:
        return None
    problem = f"{link.path}: supplementary file not found"
    for path in _candidates(image, link):
        image.looked_for.append(path)
        if not has_content(path):
            continue
        try:
            file = Image.open(path, allow_rel=True)
        except IcfError as error:
            problem = str(error)
            continue
        checksum = checksum_of(file)
        if checksum == link.checksum:
            return file
        file.close()
        problem = f"{path}: does not belong to {image.debug.path}: build id {checksum.hex()}, not {link.checksum.hex()}"
    raise IcfError(
        f"{image.debug.path}: its debug information is in part elsewhere: {problem}",
        hint="name the directory of that file with --debug-root",
    )


def _candidates(image: Image, link: SupplementaryLink) -> Iterator[str]:
    yield os.path.join(os.path.dirname(os.path.realpath(image.debug.path)), link.path)
    for root in (*image.debug_roots, SYSTEM_ROOT):
        if len(link.checksum) > 1:
            yield build_id_path(root, link.checksum)
        yield os.path.join(root, os.path.basename(link.path))
    if image.debug.asks_servers and image.asks_servers and (fetched := path_from_servers(link.checksum)):
        yield fetched
