"""Copies in the place of inputs among the words of a link command."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.linkinputs.responsefile import expand
from linkpass.distinct.command import names_file, with_copies

COPIES = {"main.o": "/t/0/main.o", "./lib/libx.a": "/t/1/libx.a"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cc ./main.o lib/libx.a -o p", "cc /t/0/main.o /t/1/libx.a -o p"),
        ("cc -Wl,main.o,--whole-archive,lib/libx.a x.o", "cc -Wl,/t/0/main.o,--whole-archive,/t/1/libx.a x.o"),
        ("cc -Xlinker main.o -Llib -lx", "cc -Xlinker /t/0/main.o -L/t/1 -Llib -lx"),
        ("cc -o main.o main.o -MF main.o lib/libx.a", "cc -o main.o /t/0/main.o -MF main.o /t/1/libx.a"),
    ],
)
def test_words_are_replaced(words: str, expected: str) -> None:
    assert with_copies(tuple(words.split()), COPIES, "/t") == (tuple(expected.split()), [])


def test_what_no_word_names_is_reported() -> None:
    words, unused = with_copies(("cc", "script.ld"), {"main.o": "/t/0/main.o", "x.rlib": "/t/1/x.rlib"}, "/t")
    assert words == ("cc", "script.ld") and unused == ["main.o", "x.rlib"]
    assert not names_file(("cc", "script.ld"), "main.o") and names_file(("cc", "script.ld"), "/usr/lib/libx.a")


def test_many_words_are_put_into_a_response_file(tmp_path: Path) -> None:
    names = [f"a b{idx}'\"\\.o" for idx in range(20000)]
    (tmp_path / "given").write_text(
        "".join(f'"{name}"\n'.replace("\\", "\\\\").replace("'\"", "'\\\"") for name in names)
    )
    given = ("cc", f"@{tmp_path / 'given'}", "main.o")
    assert expand(given[1:])[:1] == names[:1]
    words, _ = with_copies(given, {"main.o": "/t/0/main.o"}, str(tmp_path))
    assert len(words) == 2 and expand(words[1:]) == [*names, "/t/0/main.o"]
