"""What is inlined in the frames of many stacks, looked up together and one by one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.link import tool
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.symcache.reader.program import load_cached
from unwind.symcache.store.store import open_or_build
from unwind.target.frames import KeptFrames

SOURCE = """
#include <stdlib.h>
static inline __attribute__((always_inline)) int twice(int value) { return value + abs(value); }
__attribute__((noinline)) int left(int value) { return twice(value) + 1; }
__attribute__((noinline)) int right(int value) { return left(value) * 3; }
int main(int count, char **names) { return right(count) + twice(left(count)); }
"""


def test_together_and_one_by_one_they_are_the_same(tmp_path: Path) -> None:
    gcc = tool("gcc")
    (tmp_path / "a.c").write_text(SOURCE)
    image = tmp_path / "a.out"
    subprocess.run([gcc, "-O1", "-g", "-o", image, tmp_path / "a.c"], check=True)
    cache = open_or_build(image, cache_dir=str(tmp_path / "cache"))
    program = load_cached(cache)
    resolver = Resolver(program)
    starts = {name: cache.addresses(name)[0] for name in ("left", "right", "main")}
    resolved = [
        resolver.resolve((starts["left"] + offset, starts["right"] + offset, starts["main"] + offset), exact=(1, 2))
        for offset in range(8)
    ]
    together, alone = KeptFrames({program: cache}), KeptFrames({program: cache})
    together.meet(resolved[:3])
    together.meet(resolved)  # of which some are known
    for answers in resolved:
        for answer in answers:
            frames = together.of(answer)
            assert tuple(frames) == tuple(alone.of(answer)) == tuple(cache.frames(answer.vaddr))
            assert frames[-1].linkage_name == answer.linkage_name
    assert any(len(together.of(answers[0])) == 2 for answers in resolved)  # `twice` is inlined


def test_of_whom_nothing_is_known_has_no_frames() -> None:
    answer = Resolver(Program()).resolve((1,))[0]
    assert KeptFrames({}).of(answer) == ()
