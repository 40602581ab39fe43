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


_is_drawn = False  # the cursor stands after a line that `draw` has written


def draw(line: str) -> None:
    """Show a line on stderr, a terminal, in place of the one that was drawn before; "" removes it."""
    global _is_drawn
    if line or _is_drawn:
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
        _is_drawn = bool(line)


def say(*lines: str) -> None:
    """Write lines to stderr, each as `printable` returns it, in place of a line that was drawn."""
    draw("")
    sys.stderr.write("".join([f"{printable(line)}\n" for line in lines]))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte, as `surrogateescape` keeps it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
