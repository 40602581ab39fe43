"""Links that leave out symbols (`-s`, `--strip-all`; mold's `-S`, too): their programs get tables all the same.

The pass needs the symbols. So the linker keeps them, this module strips the program, and the pass uses the whole one
as debug file and puts the tables into the stripped one (`icf pass --in-image`). Code and data are those of the
link as it was given, and lie at the same addresses; a build id that the linker computes from the contents is that of
the whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkpass.link.command import LinkCommand, parse_link_command

if TYPE_CHECKING:
    from icf.elf.image import Image

_STRIP_ALL = frozenset({"-s", "--strip-all", "-strip-all"})
_STRIP_DEBUG = frozenset({"-S", "--strip-debug", "-strip-debug"})
_DEBUG_PREFIXES = (".debug_", ".zdebug_", ".gdb_index", ".rela.debug_")
_SIZE_LIMIT_BYTES = 1 << 20  # of a command line


def leaves_out_symbols(command: LinkCommand) -> bool:
    """Return whether the linker leaves out all symbols."""
    return not _options(command).isdisjoint(command.options)


def with_symbols(command: LinkCommand) -> LinkCommand | None:
    """Return the command without the options that strip; None if the stripping comes from elsewhere."""
    unwanted = _options(command)
    for words in (command.command[1:], command.arguments):  # the latter without response files
        if sum(len(word) + 1 for word in words) > _SIZE_LIMIT_BYTES:
            continue
        kept = (command.command[0], *_without(words, unwanted, direct=command.direct))
        if not leaves_out_symbols(parse_link_command(kept)._replace(linker=command.linker)):
            options = tuple(option for option in command.options if option not in unwanted)
            return command._replace(command=kept, options=options)
    return None


def strip(path: str, whole: str) -> None:
    """Make the program at `whole` one without symbols and debug information at `path`."""
    from icf.elf.image import Image
    from linkpass.rewrite.sections import rewrite

    with Image.open(whole) as image:
        rewrite(image, path, [], [], _sections_of_symbols(image))


def _options(command: LinkCommand) -> frozenset[str]:
    return _STRIP_ALL | _STRIP_DEBUG if command.linker.strips_all_with_debug else _STRIP_ALL


def _without(words: tuple[str, ...], unwanted: frozenset[str], *, direct: bool) -> list[str]:
    """Return the words of a command without these options of the linker."""
    kept: list[str] = []
    for word in words:
        if word.startswith("-Wl,") and not direct:
            options = [option for option in word[4:].split(",") if option not in unwanted]
            kept += [",".join(["-Wl", *options])] if options else []
        elif word in unwanted and not direct and kept[-1:] == ["-Xlinker"]:
            kept.pop()
        elif word not in unwanted or (not direct and word != "-s"):  # -S compiles to assembly
            kept.append(word)
    return kept


def _sections_of_symbols(image: Image) -> list[str]:
    """Return the sections that only readers of symbols and debug information need."""
    from icf.elf.types import SHT_RELA, SHT_SYMTAB

    found = [section for section in image.sections if not section.is_alloc]
    names = [section.name for section in found if section.name.startswith(_DEBUG_PREFIXES)]
    tables = [section for section in found if section.type == SHT_SYMTAB]
    names += [section.name for section in found if section.type == SHT_RELA]
    names += [name for table in tables for name in (table.name, image.sections[table.link].name)]
    shared = image.sections[image.headers.shstrndx].name  # some linkers put both kinds of names in one table
    return [name for name in dict.fromkeys(names) if name != shared]
