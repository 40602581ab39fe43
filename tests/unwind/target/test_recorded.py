"""Samples of recordings: images found and placed, stacks resolved, answers with the recording's addresses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from icf.elf.image import Image
from icf.model import Verdict
from linkpass import Options, run_pass
from tests.support.paths import ROOT
from tests.support.toolchain import compile_object, link
from unwind.process.image_finder import ImageFinder
from unwind.samples.recording import Base, Losses, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.symbolize.reasons import ReasonCode
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths

SHOP = ROOT / "testdata" / "shop"
LINES = [json.loads(line) for line in (SHOP / "shop.lld.json").read_text().splitlines()]
STACKS = [[None if word == "?" else int(word, 16) for word in line["stack"].split()] for line in LINES]
TRUTH = [line["truth"] for line in LINES]
CODE = 0x1840, 0x840  # address and offset of the segment that holds the code
FRUIT, SEED = 0x7F0000000000, 0x7FA100000000  # where two processes have loaded it


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[RecordedResolver]:
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path / "cache"))) as resolver:
        yield resolver


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the image with its tables."""
    path = Path(shutil.copy(SHOP / "shop.lld", tmp_path_factory.mktemp("shop") / "shop"))
    run_pass(str(path), Options())
    return path


def module_at(bias: int, path: Path) -> RecordedModule:
    """Return the mapping of the code of a process that has loaded the image at `bias`."""
    start = bias + CODE[0] // 4096 * 4096
    return RecordedModule(str(path), b"", Base.RUN_TIME, start, start + 4096, CODE[1] // 4096 * 4096)


def sample(stack: Sequence[int | None], module: RecordedModule, move: int, process: RecordedProcess) -> Sample:
    if module not in process.modules:
        process.modules.append(module)
    frames = [RecordedFrame() if each is None else RecordedFrame(each + move, module) for each in stack]
    return Sample(tuple(frames), process)


def check(resolver: RecordedResolver, module: RecordedModule, move: int, process: RecordedProcess) -> None:
    """Check every frame of all stacks, whose addresses as linked are recorded with `move` added."""
    samples = [sample(stack, module, move, process) for stack in STACKS]
    for resolved, truth in zip(resolver.resolve(samples), TRUTH, strict=True):
        assert [answer.linkage_name for answer in resolved.answers] == truth
        for frame, answer in zip(resolved.sample.frames, resolved.answers, strict=True):
            assert answer.address == frame.address
            assert (answer.verdict is Verdict.UNKNOWN) == (frame.address is None)


@pytest.mark.parametrize(
    ("base", "move"), [(Base.LINKED, 0), (Base.OFFSET, CODE[1] - CODE[0])], ids=["linked", "offsets"]
)
def test_addresses_in_modules(resolver: RecordedResolver, shop: Path, base: Base, move: int) -> None:
    check(resolver, RecordedModule(str(shop), base=base), move, RecordedProcess())


def test_processes_that_load_an_image_at_different_addresses(resolver: RecordedResolver, shop: Path) -> None:
    for bias in (FRUIT, SEED, 0):
        check(resolver, module_at(bias, shop), bias, RecordedProcess(pid=bias))


def test_two_images_at_one_address(resolver: RecordedResolver, shop: Path, tmp_path: Path) -> None:
    other = tmp_path / "shop.gold"
    shutil.copy(SHOP / "shop.gold", other)
    first = RecordedModule(str(other))
    resolver.resolve([Sample((RecordedFrame(0x1000, first),), RecordedProcess(modules=[first]))])
    check(resolver, RecordedModule(str(shop)), 0, RecordedProcess())


def test_reasons_and_missing_frames_have_addresses_of_the_process(resolver: RecordedResolver, shop: Path) -> None:
    for bias in (FRUIT, SEED):
        inner = sample(STACKS[1][1:3], module_at(bias, shop), bias, process := RecordedProcess())
        (resolved,) = resolver.resolve([inner])
        answer = resolved.answers[0]
        assert answer.reason is not None and answer.verdict is Verdict.AMBIGUOUS
        below = sample([0x1A45, 0x1862], module_at(bias, shop), bias, process)  # 0x1862 follows no call
        wrong = resolver.resolve([below])[0].answers[1]
        assert wrong.reason is not None and wrong.reason.code is ReasonCode.NOT_AFTER_CALL
        assert wrong.reason.address == bias + 0x1862


def test_a_build_id_decides(shop: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Image.open(str(shop)) as image:
        build_id = image.build_id
    elsewhere = tmp_path / "root" / ".build-id" / build_id.hex()[:2] / build_id.hex()[2:]
    elsewhere.parent.mkdir(parents=True)
    shutil.copy(shop, elsewhere)
    search = SearchPaths(cache_dir=str(tmp_path / "cache"))
    with RecordedResolver(search, ImageFinder([str(tmp_path / "root")])) as resolver:
        check(resolver, RecordedModule("/gone/shop", build_id), 0, RecordedProcess())
        wrong = RecordedModule(str(shop), bytes(20))
        (resolved,) = resolver.resolve([sample(STACKS[0], wrong, 0, RecordedProcess())] * 1)
        resolver.report()
    assert {answer.verdict for answer in resolved.answers} == {Verdict.UNKNOWN}
    assert [record.message for record in caplog.records] == [
        f"{shop}: has build id {build_id.hex()}, not {bytes(20).hex()}: 5 distinct frames are unknown"
    ]


def test_the_named_image_stands_for_its_build(shop: Path, tmp_path: Path) -> None:
    search = SearchPaths(cache_dir=str(tmp_path))
    with RecordedResolver(search, ImageFinder(image=str(shop))) as resolver:
        check(resolver, RecordedModule("/build/shop"), 0, RecordedProcess())
        gone = RecordedModule("/build/shop.old")
        (resolved,) = resolver.resolve([sample(STACKS[0], gone, 0, RecordedProcess())])
    assert {answer.verdict for answer in resolved.answers} == {Verdict.UNKNOWN}


def test_the_symcache_of_a_build_is_enough(shop: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copy(shop, copy)
    with Image.open(str(copy)) as image:
        build_id = image.build_id
    search = SearchPaths(cache_dir=str(tmp_path / "cache"))
    search.open(str(copy))
    copy.unlink()
    with RecordedResolver(search) as resolver:
        check(resolver, RecordedModule(str(copy), build_id), 0, RecordedProcess())


def test_names_that_are_certain_and_those_that_are_not(resolver: RecordedResolver, shop: Path) -> None:
    module, process = RecordedModule(str(shop)), RecordedProcess()
    kernel = RecordedFrame(0xFFFFFFFF81000000, None, "do_syscall_64", "entry.c", 7, is_certain=True)
    other = RecordedFrame(None, None, "perhaps")
    user = sample(STACKS[0], module, 0, process).frames
    (resolved,) = resolver.resolve([Sample((kernel, other, *user), process)])
    certain, uncertain, *_ = resolved.answers
    assert (certain.verdict, certain.name, certain.address) == (Verdict.UNMERGED, "do_syscall_64", kernel.address)
    assert [(each.file, each.line) for each in certain.frames] == [("entry.c", 7)]
    assert (uncertain.verdict, uncertain.name) == (Verdict.UNKNOWN, None)
    assert [answer.linkage_name for answer in resolved.answers[3:]] == TRUTH[0][1:]


def test_a_stack_of_return_addresses_alone(resolver: RecordedResolver, shop: Path) -> None:
    module, process = RecordedModule(str(shop)), RecordedProcess()
    called = sample(STACKS[1][1:], module, 0, process)._replace(is_called=True)
    (resolved,) = resolver.resolve([called])
    assert [answer.linkage_name for answer in resolved.answers] == TRUTH[1][1:]


def test_modules_that_come_later(resolver: RecordedResolver, shop: Path) -> None:
    process = RecordedProcess()
    unknown = Sample((RecordedFrame(None, None, "early"),), process)
    assert resolver.resolve([unknown])[0].answers[0].verdict is Verdict.UNKNOWN
    check(resolver, RecordedModule(str(shop)), 0, process)


def test_an_address_beyond_its_image_is_in_no_module(resolver: RecordedResolver, shop: Path) -> None:
    gone = RecordedModule("/gone/shop")
    known, unknown = RecordedFrame(0x7F0000, RecordedModule(str(shop))), RecordedFrame(0x7F0000, gone)
    (resolved,) = resolver.resolve([Sample((known, unknown), RecordedProcess())])
    assert [answer.module for answer in resolved.answers] == ["", gone.path]


CALLS_IN_A_ROW = """
__attribute__((noinline)) void stop() { asm volatile("nop"); }
__attribute__((noinline)) void one() { stop(); asm volatile(""); }
__attribute__((noinline)) void two() { stop(); asm volatile(""); }
__attribute__((noinline)) void both() { one(); two(); one(); asm volatile(""); }
int main() { both(); return 0; }
"""


def test_calls_that_follow_each_other_on_aarch64(tmp_path: Path) -> None:
    """Where a call begins another one has ended: only the recording knows which of them is meant."""
    program = compile_object(CALLS_IN_A_ROW, "-g", "-O1", "-ffunction-sections", arch="aarch64")
    image = link(tmp_path / "shop", "lld", program, "-Wl,--icf=all", arch="aarch64")
    run_pass(str(image), Options())
    with Image.open(str(image)) as opened:
        rows = opened.symbols.functions.tolist()
        starts = {opened.symbols.name(row): int(opened.symbols.value[row]) for row in rows}
        code = {name: bytes(opened.read(starts[name], 32)) for name in ("_Z3onev", "_Z4bothv")}

    def first_call(name: str) -> int:
        is_call = [code[name][idx + 3] >> 2 == 0b100101 for idx in range(0, 32, 4)]
        return starts[name] + 4 * is_call.index(True)

    module, process = RecordedModule(str(image)), RecordedProcess(modules=[RecordedModule(str(image))])
    inner, calls = first_call("_Z3onev"), first_call("_Z4bothv")
    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path / "cache"))) as resolver:
        for idx, name in enumerate(("_Z3onev", "_Z3twov", "_Z3onev")):
            frames = [RecordedFrame(starts["_Z4stopv"], module)]
            frames += [RecordedFrame(address, module, in_call=True) for address in (inner, calls + 4 * idx)]
            (resolved,) = resolver.resolve([Sample(tuple(frames), process)])
            assert [answer.linkage_name for answer in resolved.answers] == ["_Z4stopv", name, "_Z4bothv"]
            assert [answer.address for answer in resolved.answers] == [frame.address for frame in frames]


def test_calls_that_the_processor_noted(resolver: RecordedResolver, shop: Path, tmp_path: Path) -> None:
    """Each frame but the first has the address of the call, and of the function that the call led to."""
    with Image.open(str(shop)) as image:
        text = next(each for each in image.sections if each.name == ".text")
        code = bytes(image.read(text.vaddr, text.size_bytes))
    insns = Cs(CS_ARCH_X86, CS_MODE_64).disasm_lite(code, text.vaddr)
    call_of = {vaddr + size_bytes: vaddr for vaddr, size_bytes, mnemonic, _ in insns if mnemonic == "call"}
    module, process = RecordedModule(str(shop)), RecordedProcess()
    process.modules.append(module)

    def noted(stack: Sequence[int], entered: Sequence[int]) -> Sample:
        pairs = zip(stack[1:], entered, strict=True)
        calls = (RecordedFrame(call_of[address], module, callee=callee) for address, callee in pairs)
        return Sample((RecordedFrame(stack[0], module, is_exact=True), *calls), process)

    with RecordedResolver(SearchPaths(cache_dir=str(tmp_path)), losses=Losses.ANY) as lossy:
        for recorded, truth in zip(STACKS, TRUTH, strict=True):
            stack = [each for each in recorded[: recorded.index(None)] if each is not None]
            (plain,) = resolver.resolve([sample(stack, module, 0, process)])
            entered = [answer.start for answer in plain.answers[:-1]]

            right = noted(stack, entered)
            stale = noted(stack, [*entered[:2], entered[2] + 16, *entered[3:]])  # of a call that `longjmp` has left
            right_answers, stale_answers = (each.answers for each in lossy.resolve([right, stale]))
            assert [answer.linkage_name for answer in right_answers] == truth[: len(stack)]
            assert [answer.address for answer in right_answers[1:]] == [call_of[each] for each in stack[1:]]
            assert {answer.verdict for answer in stale_answers[1:3]} == {Verdict.AMBIGUOUS}
            assert [answer.linkage_name for answer in stale_answers[3:]] == truth[3 : len(stack)]
    frame = RecordedFrame(stack[1], module, callee=entered[0])  # no call starts there, though one ends there
    (other,) = resolver.resolve([Sample((RecordedFrame(stack[0], module), frame), process)])
    assert other.answers[1].verdict is Verdict.UNKNOWN


def test_few_stacks_of_many_frames_are_resolved_together(resolver: RecordedResolver) -> None:
    """Thousands of them would take gigabytes."""
    frames, process = (RecordedFrame(),) * 300_000, RecordedProcess()
    parts = resolver.batches(Sample(frames, process) for _ in range(10))
    assert [len(part) for part in parts] == [4, 4, 2]
