"""Partial symcaches: only what was asked for is kept, in memory first, written at several points."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.errors import FormatError
from icf.model import MemberFlag
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.unwind.symcache.support import aged, inodes, kept
from unwind.program.frame import Frame
from unwind.symcache.format.container import Container, Head, Identity, pack
from unwind.symcache.format.sources import Sought
from unwind.symcache.reader.found import CachedMember, Located
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store import lazy
from unwind.symcache.store.checking import bodies
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.lazy import LazySymCache
from unwind.symcache.store.making import make
from unwind.symcache.store.ownership import PARTIAL
from unwind.symcache.store.partial import NOTHING, Answer, Entries, PartialFile
from unwind.symcache.store.store import open_or_build

NOWHERE = 0x10


@pytest.fixture
def truth(image: Path, tmp_path: Path) -> SymCache:
    """All there is to know of the program."""
    return open_or_build(image, cache_dir=tmp_path / "complete")


def opened(image: Path, folder: Path) -> LazySymCache:
    cache = open_or_build(image, cache_dir=folder, lazy=True)
    assert isinstance(cache, LazySymCache)
    return cache


def on_disk(folder: Path) -> PartialFile:
    (path,) = folder.glob(f"*{PARTIAL}")
    return PartialFile(Container.open(path))


def asked(folder: Path) -> tuple[list[int], list[str]]:
    file = on_disk(folder)
    return [vaddr for vaddr, _ in file.answers()], sorted(name for name, _ in file.names())


def no_image(*_: object) -> None:
    raise AssertionError("the image was read")


def test_only_what_was_asked_for_is_kept(
    image: Path, folder: Path, truth: SymCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (main,) = truth.addresses("main")
    with opened(image, folder) as cache:
        assert cache.find(main + 8) == truth.find(main + 8) and cache.frames(main + 8) == truth.frames(main + 8)
        assert cache.addresses("main") == [main]
        assert not cache.is_complete and cache.identity == truth.identity
    assert asked(folder) == ([main + 8], ["main"]) and kept(folder) == []
    monkeypatch.setattr(lazy, "make", no_image)
    with opened(image, folder) as cache:
        assert cache.find(main + 8) == truth.find(main + 8) and cache.frames(main + 8) == truth.frames(main + 8)
        assert cache.addresses("main") == [main]
        with pytest.raises(AssertionError):
            cache.find(main)


def test_a_name_has_all_its_addresses_and_all_members_their_frames(image: Path, folder: Path) -> None:
    subprocess.run([*icf_command(), "pass", "-q", image], check=True, cwd=ROOT)
    truth = open_or_build(image, cache_dir=folder / "complete")
    merged = [found for found in bodies(truth, truth.container) if len(found.members) > 1]
    assert merged
    with opened(image, folder) as cache:
        for found in merged[:5]:
            assert cache.find(found.start) == found
            for at, member in enumerate(found.members):
                assert cache.frames(found.start, at) == truth.frames(found.start, at)
                assert cache.addresses(member.name) == truth.addresses(member.name) != []
            with pytest.raises(IndexError):
                cache.frames(found.start, len(found.members))
    with opened(image, folder) as cache:
        assert [cache.find(found.start) for found in merged[:5]] == merged[:5]


def test_not_there_is_remembered(image: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(image, folder) as cache:
        assert cache.addresses("nobody") == [] and cache.find(NOWHERE) is None and cache.frames(NOWHERE) == []
        assert cache.find(-1) is None and cache.find(1 << 70) is None
    assert on_disk(folder).addresses("nobody") == [] and on_disk(folder).answer(NOWHERE) == NOTHING
    monkeypatch.setattr(lazy, "make", no_image)
    with opened(image, folder) as cache:
        assert cache.addresses("nobody") == [] and cache.find(NOWHERE) is None and cache.frames(NOWHERE) == []


def test_a_complete_one_is_used_where_there_is_one(image: Path, folder: Path) -> None:
    with opened(image, folder) as cache:
        cache.addresses("main")
    assert list(folder.glob(f"*{PARTIAL}"))
    open_or_build(image, cache_dir=folder)
    assert isinstance(open_or_build(image, cache_dir=folder, lazy=True), SymCache)
    assert not list(folder.glob(f"*{PARTIAL}"))


# When it is written


def test_memory_comes_first(image: Path, folder: Path, truth: SymCache) -> None:
    cache = opened(image, folder)
    (main,) = truth.addresses("main")
    assert cache.addresses("main") == [main] and not list(folder.glob(f"*{PARTIAL}"))
    cache.flush()
    assert asked(folder) == ([], ["main"])
    before = list(folder.glob(f"*{PARTIAL}"))[0].stat().st_ino
    cache.flush()  # nothing new
    cache.close()
    assert list(folder.glob(f"*{PARTIAL}"))[0].stat().st_ino == before


def test_it_is_written_when_there_is_much_that_is_new(image: Path, folder: Path, truth: SymCache) -> None:
    (main,) = truth.addresses("main")
    cache = opened(image, folder)
    for vaddr in range(main, main + lazy.WRITTEN_AFTER + 10):
        cache.find(vaddr)
    assert asked(folder)[0] == list(range(main, main + lazy.WRITTEN_AFTER))


def test_it_is_written_after_a_while(
    image: Path, folder: Path, truth: SymCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "WRITTEN_AFTER_S", 0.05)
    (main,) = truth.addresses("main")
    cache = opened(image, folder)
    cache.find(main)
    time.sleep(0.06)
    cache.find(main)  # a question that is answered already
    assert asked(folder)[0] == [main]


ASK = """
import signal, sys, time
from unwind.symcache.store.store import open_or_build
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as the command does it
cache = open_or_build(sys.argv[1], cache_dir=sys.argv[2], lazy=True)
cache.find(int(sys.argv[3]))
print("asked", flush=True)
if sys.argv[4] == "waits":
    time.sleep(100)
if sys.argv[4] == "raises":
    raise SystemExit(3)
"""


@pytest.mark.parametrize("how", ["ends", "raises", "waits"])
def test_it_is_written_at_the_end_of_the_process(how: str, image: Path, folder: Path, truth: SymCache) -> None:
    (main,) = truth.addresses("main")
    command: list[str | Path] = [sys.executable, "-c", ASK, image, folder, str(main), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None and process.stdout.readline() == b"asked\n"
        if how == "waits":
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == {"ends": 0, "raises": 3, "waits": 143}[how]
    assert asked(folder)[0] == [main]


def test_it_is_written_when_nobody_has_it_any_more(image: Path, folder: Path, truth: SymCache) -> None:
    cache = opened(image, folder)
    cache.addresses("main")
    del cache
    assert asked(folder) == ([], ["main"])


def test_two_that_ask_at_once_keep_what_both_learnt(image: Path, folder: Path, truth: SymCache) -> None:
    (main,) = truth.addresses("main")
    first, second = opened(image, folder), opened(image, folder)
    for cache, offset, name in ((first, 0, "main"), (second, 4, "nobody")):
        cache.find(main + offset)
        cache.addresses(name)
    first.close()
    second.close()
    assert asked(folder) == ([main, main + 4], ["main", "nobody"])


# Damaged, changed


def test_a_changed_module_invalidates(image: Path, folder: Path, truth: SymCache) -> None:
    with opened(image, folder) as cache:
        cache.addresses("main")
    image.write_bytes(image.read_bytes().replace(b"\0main\0", b"\0niam\0"))
    aged(image)
    with opened(image, folder) as cache:
        assert cache.addresses("main") == [] and cache.addresses("niam") == truth.addresses("main")
    assert len(list(folder.glob(f"*{PARTIAL}"))) == 2


def test_damage_is_found_and_the_questions_are_asked_again(image: Path, folder: Path, truth: SymCache) -> None:
    (main,) = truth.addresses("main")
    questions = [main, main + 8, NOWHERE]
    with opened(image, folder) as cache:
        expected = [(cache.find(vaddr), cache.frames(vaddr)) for vaddr in questions]
        cache.addresses("main")
    (path,) = folder.glob(f"*{PARTIAL}")
    good, chance = path.read_bytes(), random.Random(3)
    for at in range(30):
        changed = bytearray(good)
        changed[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        path.unlink(missing_ok=True)
        path.write_bytes(changed if at else good[: len(good) // 2])
        with opened(image, folder) as cache:
            assert [(cache.find(vaddr), cache.frames(vaddr)) for vaddr in questions] == expected
            assert cache.addresses("main") == [main]
        on_disk(folder).container.check_all()


def test_an_unusable_folder_is_said_once(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        with opened(image, tmp_path / "file") as cache:
            assert cache.addresses("main")
    assert capsys.readouterr().err.count("\n") == 1


# The file


ANSWERS = {
    0x401000: Answer(
        Located(0x401000, 8, (CachedMember("f", MemberFlag.LOCAL, ("g",)),), True),
        ((Frame("f", "a.c", 7, 3, False),),),
    ),
    0x401FFF: NOTHING,
    (1 << 64) - 1: NOTHING,
}
NAMES = {"f": [0x401000, 0x402000], "nobody": [], "plumless": [1], "buckeroo": [2]}  # the last two have one CRC-32


def sections_of(answers: dict[int, Answer], names: dict[str, list[int]]) -> dict[str, bytes]:
    entries = Entries({}, {})
    entries.add(answers, names)
    return entries.pack()


def file_of(sections: dict[str, bytes]) -> PartialFile:
    head = Head(Identity(1, b"id"), bytes(16), 62, 0)
    return PartialFile(Container(memoryview(b"".join(pack(head, sections, {}))), "a.partial"))


def test_what_goes_in_comes_out() -> None:
    file = file_of(sections_of(ANSWERS, NAMES))
    assert dict(file.answers()) == ANSWERS and dict(file.names()) == NAMES
    for vaddr, answer in ANSWERS.items():
        assert file.answer(vaddr) == answer
    for name, addresses in NAMES.items():
        assert file.addresses(name) == addresses
    assert file.answer(0x401001) is None and file.addresses("other") is None
    assert dict(file_of(sections_of({}, {})).answers()) == {}
    assert file.entries().pack() == sections_of(ANSWERS, NAMES)


@pytest.mark.parametrize(
    ("section", "content"),
    [
        ("addrs", b"1234567"),
        ("addrat", b""),
        ("addrat", b"\xff" * 16),
        ("addrdat", b"{}" * 100),
        ("addrdat", b"[1,2,3,4]" * 20),
        ("addrdat", b"[" * 500),
        ("hashat", bytes(20)),
        ("hashdat", b"[[" * 100),
    ],
)
def test_sections_that_break_the_format(section: str, content: bytes) -> None:
    with pytest.raises(FormatError, match=r"a\.partial: [a-z]+\+0x"):
        file = file_of(sections_of(ANSWERS, NAMES) | {section: content})
        list(file.answers())
        list(file.names())


def test_made_in_part_is_not_complete(image: Path, truth: SymCache, tmp_path: Path) -> None:
    (main,) = truth.addresses("main")
    made = make(Sought(str(image)), Folder(str(tmp_path / "none")), [main])
    cache = SymCache.from_container(made.in_memory())
    assert not cache.is_complete and cache.find(main) == truth.find(main)
    assert len(made.sections["records"]) < os.path.getsize(truth.path) // 2 and inodes(tmp_path / "none") == []
