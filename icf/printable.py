"""Names and paths made safe for a terminal: characters that a terminal would act on are escaped.

A name is whatever bytes an image has. An escape sequence in one could hide or forge output, a newline could forge a
row, a mark of direction reverses the text after it. So `\x1b`, `\n`, `\u202e` stand for such characters, and `\xff`
for a byte that is not UTF-8.
"""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return `text` with each character escaped that a terminal would act on.

    >>> printable("f(int)"), printable("f\\x1b[2J"), printable("f\\udcff")
    ('f(int)', 'f\\\\x1b[2J', 'f\\\\xff')
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def say(*lines: str) -> None:
    """Write lines to stderr, each as `printable` returns it."""
    sys.stderr.write("".join([f"{printable(line)}\n" for line in lines]))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte, as `surrogateescape` keeps it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
