"""Response files: the words that `@file` on a command line stands for.

Build systems write the objects of a link into a file when there are too many for a command line. The rules
are those of GNU `expandargv`, which gcc, clang, ld and ar share: words are separated by white space; a
backslash takes the next character as it is, everywhere; single and double quotes hold white space together;
a word that starts with @ is expanded in its turn, in its place, and stays as it is if there is no such file.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from icf.errors import FormatError, IcfError

DEPTH_LIMIT = 32
FILE_LIMIT = 2000  # as GNU has it; files that name each other twice would make 2 ** DEPTH_LIMIT of them
_PLACE = "response file"
_BLANKS = " \t\n\r\v\f"
_PLAIN_WORD = re.compile(f"[^{_BLANKS}]+")
_QUOTES = re.compile(r"[\\\"']")
_SPECIAL = re.compile(f"[{_BLANKS}\\\\\"']")


def expand(words: Sequence[str], directory: str = "") -> list[str]:
    """Return the words with each `@file` replaced by the words in it; relative files are looked up in `directory`."""
    return list(_expand(words, directory, (), itertools.count(1)))


def split_words(text: str, path: str) -> list[str]:
    """Return the words of a response file."""
    if not _QUOTES.search(text):
        return _PLAIN_WORD.findall(text)
    words: list[str] = []
    word: list[str] = []
    is_word, quote, quote_start = False, "", 0
    characters = iter(enumerate(text))
    for offset, character in characters:
        if character == "\\":
            _, character = next(characters, (0, ""))
            word.append(character)
            is_word = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "\"'":
            quote, quote_start, is_word = character, offset, True
        elif character not in _BLANKS:
            word.append(character)
            is_word = True
        elif is_word:
            words.append("".join(word))
            word, is_word = [], False
    if quote:
        raise FormatError(path, _PLACE, quote_start, f"quote {quote} is not closed")
    if is_word:
        words.append("".join(word))
    return words


def escaped(word: str) -> str:
    """Return `word` so that a response file stands for exactly that word."""
    return _SPECIAL.sub(r"\\\g<0>", word)


def _expand(words: Sequence[str], directory: str, parents: tuple[str, ...], files: Iterator[int]) -> Iterator[str]:
    for word in words:
        path = os.path.join(directory, word[1:])
        if not word.startswith("@") or len(word) == 1 or not os.path.isfile(path):
            yield word
            continue
        if len(parents) == DEPTH_LIMIT:
            raise IcfError(f"{path}: response files are nested more than {DEPTH_LIMIT} deep, the first is {parents[0]}")
        if next(files) > FILE_LIMIT:
            raise IcfError(f"{path}: more than {FILE_LIMIT} response files are read")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                text = file.read()
        except OSError as error:
            raise IcfError(f"{path}: {error.strerror}") from error
        yield from _expand(split_words(text, path), directory, (*parents, path), files)
