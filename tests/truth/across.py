"""A generated program of three files for three modules: functions that fold, called across by name or by pointer.

left.cpp     pairs of exported functions of one body: leaves that allocate, and callers of a leaf each
right.cpp    pairs that call left's by name, jump to them, or hand them a function of the main program
main.cpp     calls both, and is called back
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HEADER = """\
#pragma once
#include <cstdlib>
#define NOINLINE __attribute__((noinline))
static inline void allocate(unsigned size_bytes) { void *volatile block = std::malloc(size_bytes); std::free(block); }
extern "C" {
extern volatile unsigned long left_sink, right_sink;
typedef void (*Callback)(unsigned);
"""


def write_across(folder: Path, pair_count: int) -> list[Path]:
    """Write the sources, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    declared, left, right, body = [HEADER], [], [], []
    for number in range(pair_count):
        for half in "ab":
            name = f"{half}{number}"
            declared.append(
                f"void leaf_{name}(unsigned); void stem_{name}(unsigned); void each_{name}(Callback, unsigned);\n"
                f"void by_name_{name}(unsigned); void by_jump_{name}(unsigned);\n"
                f"void by_call_{name}(Callback, unsigned);\n"
            )
            left.append(
                f"NOINLINE void leaf_{name}(unsigned n) {{ allocate({number + 9} + n % 7); "
                f"left_sink += n; }}\n"
                f"NOINLINE void stem_{name}(unsigned n) {{ leaf_{name}(n + 1); left_sink += {number}; }}\n"
                f"NOINLINE void each_{name}(Callback one, unsigned n) {{ one(n); left_sink += {number + 2}; }}\n"
            )
            right.append(
                f"NOINLINE void by_name_{name}(unsigned n) {{ leaf_{name}(n); right_sink += {number}; }}\n"
                f"NOINLINE void by_jump_{name}(unsigned n) {{ right_sink += n; stem_{name}(n + {number}); }}\n"
                f"NOINLINE void by_call_{name}(Callback one, unsigned n) {{ each_{name}(one, n); right_sink += 1; }}\n"
            )
            body.append(
                f"NOINLINE void own_{name}(unsigned n) {{ allocate({number + 99}); left_sink += n; }}\n"
                f"NOINLINE void back_{name}(unsigned n) {{ own_{name}(n); right_sink += 2; }}\n"
            )
    texts = {
        "across.h": "".join([*declared, "}\n"]),
        "left.cpp": _unit("volatile unsigned long left_sink;", left),
        "right.cpp": _unit("volatile unsigned long right_sink;", right),
        "main.cpp": _unit("", [*body, "}\n", "int main() {\n", *_calls(pair_count), "  return 0;\n"]),
    }
    for name, text in texts.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    return [folder / name for name in texts if name.endswith(".cpp")]


def _unit(first: str, functions: list[str]) -> str:
    return "".join(['#include "across.h"\n', 'extern "C" {\n', first + "\n", *functions, "}\n"])


def _calls(pair_count: int) -> Iterator[str]:
    yield "  for (unsigned n = 0; n < 40; ++n) {\n"
    for number in range(pair_count):
        for half in "ab":
            name = f"{half}{number}"
            yield f"    leaf_{name}(n); stem_{name}(n); by_name_{name}(n); by_jump_{name}(n);\n"
            yield f"    each_{name}(back_{name}, n); by_call_{name}(back_{name}, n); back_{name}(n);\n"
    yield "  }\n"
