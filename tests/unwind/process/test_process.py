"""Calls between modules, as plain data: names and versions, who else defines them, addresses; lists of modules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from icf.errors import IcfError
from icf.model import ClassFlag, Evidence, FoldClass, Member, MemberFlag, Vaddr, Verdict
from tests.support.paths import ROOT
from tests.unwind.support import COMPLETE, MARKED, call, exports, fold, pc, ret, start, tail
from unwind.process.image_finder import ImageFinder
from unwind.process.module_list import LoadedModule, find_images, read_modules
from unwind.process.process import Module, Process
from unwind.program.exports import Export, ListedExports
from unwind.program.parts import CallSite, Jumps, ListedCode, SiteKind
from unwind.program.program import Linkage, Program
from unwind.resolve.resolver import Resolver
from unwind.symbolize.answer import Answer

NONE, TAKEN = MemberFlag.NONE, MemberFlag.ADDRESS_TAKEN
SIZE_BYTES = 0x100000
X, Y, Z = 0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000  # where the modules lie


def named(prefix: str, each: FoldClass) -> FoldClass:
    """The class with other names, as no two modules of a test have the same unless it says so."""
    members = tuple(member._replace(name=prefix + member.name) for member in each.members)
    return each._replace(members=members)


def imports(symbol: str) -> CallSite:
    return CallSite(SiteKind.IMPORT, symbol=symbol)


def code(sites: dict[int, CallSite], jumps: Mapping[int, Jumps | None] | None = None) -> ListedCode:
    return ListedCode(sites, jumps)


class World:
    """Modules and what has been loaded of them."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.loaded: list[str] = []

    def add(
        self, bias: int, classes: list[FoldClass], listed: ListedExports, code: ListedCode | None = None, **more: object
    ) -> World:
        path = f"lib{bias >> 36}.so"

        def load(linkage: Linkage) -> Program:
            self.loaded.append(path)
            return Program(classes, code=code, exports=listed, linkage=linkage, **more)  # type: ignore[arg-type]

        self.modules.append(Module(path, bias, bias, bias + SIZE_BYTES, load, listed))
        return self

    def resolve(self, *addresses: int | None) -> tuple[Answer, ...]:
        return Resolver(Process(self.modules)).resolve(addresses)

    def names(self, *addresses: int | None) -> list[str]:
        return [
            answer.linkage_name or ":".join([answer.verdict.value, ",".join(answer.linkage_names)]).rstrip(":")
            for answer in self.resolve(*addresses)
        ]


def library(*members: int) -> list[FoldClass]:
    return [named("x_", fold(body, count, MARKED, marks=[TAKEN] * count)) for body, count in enumerate(members)]


def test_a_call_by_name_means_what_the_other_module_exports() -> None:
    x = library(2, 1)
    y = [named("y_", fold(0, 1))]
    world = World().add(X, x, exports(*x)).add(Y, y, ListedExports(), code({ret(0): imports("x_b0m1")}))
    inner, outer = world.resolve(X + pc(0), Y + ret(0))
    assert (inner.linkage_name, inner.verdict, inner.evidence) == ("x_b0m1", Verdict.UNIQUE, "decoded")
    assert (inner.address, inner.vaddr, inner.module, outer.module) == (X + pc(0), pc(0), "lib1.so", "lib2.so")


def test_without_a_name_exported_members_remain() -> None:
    x = [named("x_", fold(0, 3, MARKED, marks=[TAKEN, TAKEN, NONE]))]
    y = [named("y_", fold(0, 1))]
    sites = {ret(0): CallSite(SiteKind.INDIRECT), ret(0, 1): imports("unknown"), ret(0, 2): CallSite(SiteKind.NONE)}
    world = World().add(X, x, exports(*x)).add(Y, y, ListedExports(), code(sites))
    assert world.names(X + pc(0), Y + ret(0))[0] == "narrowed:x_b0m0,x_b0m1"
    assert world.names(X + pc(0), Y + ret(0, 1))[0] == "ambiguous:x_b0m0,x_b0m1,x_b0m2"
    assert world.names(X + pc(0), Y + ret(0, 2))[0] == "ambiguous:x_b0m0,x_b0m1,x_b0m2"
    assert str(world.resolve(X + pc(0), Y + ret(0))[0].reason) == f"indirect call before {Y + ret(0):#x}"
    # a frame in no module is one outside, and is so whether it has an address or not
    assert world.names(X + pc(0), X + ret(0), 0x1234)[1:] == ["narrowed:x_b0m0,x_b0m1", "unknown"]
    assert world.names(X + pc(0), X + ret(0), None)[1:] == ["narrowed:x_b0m0,x_b0m1", "unknown"]


def test_versions() -> None:
    members = (Member("g", aliases=("g_old",)), Member("other"), Member("g_new", aliases=("g",)))
    x = [
        FoldClass(Vaddr(start(0)), 0x1000, members[:2], COMPLETE),
        FoldClass(Vaddr(start(1)), 0x1000, (members[2], Member("third")), COMPLETE),
    ]
    listed = ListedExports([Export("g", start(0), "V1", is_hidden=True), Export("g", start(1), "V2")])
    sites = {ret(0): imports("g@V1"), ret(0, 1): imports("g@V2"), ret(0, 2): imports("g"), ret(0, 3): imports("g@V3")}
    world = World().add(X, x, listed).add(Y, [named("y_", fold(0, 1))], ListedExports(), code(sites))
    assert [world.names(X + pc(0), Y + ret(0, site))[0] for site in range(4)] == [
        "g", "ambiguous:g,other", "g", "ambiguous:g,other",
    ]  # fmt: skip
    assert [world.names(X + pc(1), Y + ret(0, site))[0] for site in range(3)] == [
        "ambiguous:g_new,third", "g_new", "g_new",
    ]  # fmt: skip


def test_versions_in_one_body_are_told_apart_by_their_names() -> None:
    members = (Member("one", aliases=("g@V1",)), Member("two", aliases=("g@@V2",)), Member("g", flags=MemberFlag.LOCAL))
    x = [FoldClass(Vaddr(start(0)), 0x1000, members, COMPLETE)]
    listed = ListedExports([Export("g", start(0), "V1", is_hidden=True), Export("g", start(0), "V2")])
    sites = {ret(0): imports("g@V1"), ret(0, 1): imports("g@V2"), ret(0, 2): imports("g")}
    world = World().add(X, x, listed).add(Y, [named("y_", fold(0, 1))], ListedExports(), code(sites))
    assert [world.names(X + pc(0), Y + ret(0, site))[0] for site in range(3)] == ["one", "two", "narrowed:one,two"]


def test_the_address_of_a_chosen_function_is_not_its_name() -> None:
    x = library(2)
    listed = ListedExports([Export("x_b0m0", start(0), is_chosen=True)])
    world = (
        World().add(X, x, listed).add(Y, [named("y_", fold(0, 1))], ListedExports(), code({ret(0): imports("x_b0m0")}))
    )
    assert world.names(X + pc(0), Y + ret(0))[0] == "ambiguous:x_b0m0,x_b0m1"


def test_tail_calls_into_a_third_module_and_back() -> None:
    # the program calls y_b0m0, which jumps to x_b0m1 or z_b0m0, and that back into the program
    x, z = library(2), [named("z_", fold(0, 1))]
    y = [named("y_", fold(0, 1)), named("y_", fold(1, 1))]
    program = [fold(0, 2), fold(1, 1)]
    jumps = {start(0): Jumps(imports=((start(0) + 8, "x_b0m1"), (start(0) + 16, "z_b0m0")))}
    back = {start(0): Jumps(imports=((start(0) + 8, "b0m1"),))}
    world = (
        World().add(X, x, exports(*x)).add(Y, y, exports(*y), code({}, jumps)).add(Z, z, exports(*z), code({}, back))
    )
    world.add(0x40_0000_0000, program, exports(*program), code({ret(1): imports("y_b0m0")}))
    assert world.names(X + pc(0), 0x40_0000_0000 + ret(1))[0] == "x_b0m1"
    assert world.names(0x40_0000_0000 + pc(0), 0x40_0000_0000 + ret(1))[0] == "b0m1"


def test_a_name_that_nobody_defines_may_lead_anywhere() -> None:
    x, y = library(3), [named("y_", fold(0, 1))]
    jumps = {start(0): Jumps(imports=((start(0) + 8, "x_b0m1"), (start(0) + 16, "nobody")))}
    program = [fold(0, 1)]
    world = World().add(X, x, exports(*x)).add(Y, y, exports(*y), code({}, jumps))
    world.add(Z, program, ListedExports(), code({ret(0): imports("y_b0m0")}))
    assert world.names(X + pc(0), Z + ret(0))[0] == "ambiguous:x_b0m0,x_b0m1,x_b0m2"
    jumps[start(0)] = Jumps(imports=((start(0) + 8, "x_b0m1"), (start(0) + 16, "free@GLIBC_2.2.5")))
    world = World().add(X, x, exports(*x)).add(Y, y, exports(*y), code({}, jumps))
    world.add(Z, program, ListedExports(), code({ret(0): imports("y_b0m0")}))
    assert world.names(X + pc(0), Z + ret(0))[0] == "x_b0m1"


def test_another_definition_of_the_name_may_have_been_bound() -> None:
    # y defines x_b0m0 as well, and jumps on to its sibling; whichever was bound, the frame is one of the two
    x = library(3)
    y = [FoldClass(Vaddr(start(0)), 0x1000, (Member("x_b0m0"),), COMPLETE)]
    jumps = {start(0): Jumps(imports=((start(0) + 8, "x_b0m1"),))}
    records = [call((1, 0), (0, 0))]
    x.append(fold(1, 1))
    world = World().add(X, x, exports(*x), code({ret(1): imports("x_b0m0")}), records=records)
    world.add(Y, y, exports(*y), code({}, jumps)).add(
        Z, [fold(0, 1)], ListedExports(), code({ret(0): imports("x_b0m0")})
    )
    assert world.names(X + pc(0), Z + ret(0))[0] == "narrowed:x_b0m0,x_b0m1"
    assert world.names(X + pc(0), X + ret(1))[0] == "narrowed:x_b0m0,x_b0m1"  # for all that the record says


def test_where_nothing_leads_from_call_to_frame_nothing_is_concluded() -> None:
    # the loader runs in the place of a function that it has yet to bind
    x, loader = library(2), [named("loader_", fold(0, 2))]
    y = [fold(0, 1), fold(1, 2)]
    world = World().add(X, x, exports(*x)).add(Z, loader, ListedExports())
    world.add(Y, y, ListedExports(), code({ret(0): imports("x_b0m1")}), records=[call((0, 0), (1, 1), site=1)])
    assert world.names(Z + pc(0), Y + ret(0)) == ["ambiguous:loader_b0m0,loader_b0m1", "b0m0"]
    assert world.names(Z + pc(0), Y + ret(0, 1)) == ["ambiguous:loader_b0m0,loader_b0m1", "b0m0"]
    assert world.names(Y + pc(1), Y + ret(0, 1)) == ["b1m1", "b0m0"]


def test_evidence_flows_through_modules_in_both_directions() -> None:
    # m1 of the program's merged pair is the one whose call, through y, ends in x
    x, y = library(2), [named("y_", fold(0, 1)), named("y_", fold(1, 1))]
    program = [fold(0, 2), fold(1, 1), fold(2, 1)]
    records = [call((0, 0), (1, 0)), call((0, 1), (2, 0))]
    jumps = {start(2): Jumps(imports=((start(2) + 8, "y_b0m0"),)), start(1): Jumps()}
    world = World().add(X, x, exports(*x))
    world.add(Y, y, exports(*y), code({ret(0): imports("x_b0m0")}))
    sites = {ret(0): CallSite(SiteKind.DIRECT, start(1))}
    world.add(Z, program, ListedExports(), code(sites, jumps), records=records)
    answers = world.resolve(X + pc(0), Y + ret(0), Z + ret(0))
    assert answers[0].linkage_name == "x_b0m0" and answers[1].linkage_name == "y_b0m0"
    assert answers[0].evidence == Evidence.DECODED.name.lower()


def test_merged_callers_that_mold_linked_may_mean_any_of_the_names_at_an_address() -> None:
    x, y = library(2), [fold(0, 2), fold(1, 1)]
    for folds_imports, expected in ((False, "x_b0m0"), (True, "ambiguous:x_b0m0,x_b0m1")):
        world = World().add(X, x, exports(*x))
        sites = {ret(0): imports("x_b0m0"), ret(1): imports("x_b0m0")}
        world.add(Y, y, ListedExports(), code(sites), folds_imports=folds_imports)
        assert world.names(X + pc(0), Y + ret(0))[0] == expected
        assert world.names(X + pc(0), Y + ret(1))[0] == "x_b0m0"


@pytest.mark.first_alone  # the second resolver loads all of them
def test_only_modules_that_stacks_touch_are_loaded() -> None:
    x, y = library(2), [named("y_", fold(0, 1))]
    world = World().add(X, x, exports(*x)).add(Y, y, ListedExports(), code({ret(0): imports("x_b0m1")}))
    world.add(Z, library(2)[:0], ListedExports())
    resolver = Resolver(Process(world.modules))
    resolver.resolve((Y + pc(0),))
    assert world.loaded == ["lib2.so"]
    resolver.resolve((X + pc(0), Y + ret(0)))
    assert world.loaded == ["lib2.so", "lib1.so"]


def test_tail_calls_within_the_exported_functions_module() -> None:
    x = [named("x_", fold(0, 2, ClassFlag.MEMBERS_COMPLETE)), named("x_", fold(1, 2, ClassFlag.MEMBERS_COMPLETE))]
    tails = [tail((0, 0), (1, 0)), tail((0, 1), (1, 1))]
    y = [named("y_", fold(0, 1))]
    world = World().add(X, x, exports(*x), tail_calls=tails)
    world.add(Y, y, ListedExports(), code({ret(0): imports("x_b0m1")}))
    assert world.names(X + pc(1), Y + ret(0))[0] == "x_b1m1"


def test_numbers_and_paths_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "modules"
    entries = [
        {"path": "a", "load_address": 4096, "build_id": "00ff", "size": "what is this"},
        {"path": "b", "bias": "0x7F0000000000"},
        {"path": "c", "bias": -4096, "build_id": ""},
    ]
    path.write_text(json.dumps(entries))
    assert read_modules(str(path)) == [
        LoadedModule("a", b"\0\xff", 4096, None),
        LoadedModule("b", b"", None, 0x7F0000000000),
        LoadedModule("c", b"", None, -4096),
    ]
    for entry in (
        {"load_address": True},
        {"load_address": 1.5},
        {"load_address": -1},
        {"bias": "12"},
        {"bias": 1 << 64},
    ):
        path.write_text(json.dumps([{"path": "a", **entry}]))
        with pytest.raises(IcfError, match="modules: module 1: (load_address|bias) must be a number of 64 bits"):
            read_modules(str(path))
    path.write_text("[" * 100_000)
    with pytest.raises(IcfError, match="is neither JSON nor the text of /proc/PID/maps"):
        read_modules(str(path))


def test_mappings_in_a_list(tmp_path: Path) -> None:
    path = tmp_path / "modules"
    mapping = {"path": "a", "start": "0x7000", "end": "0x8000", "offset": 0}
    path.write_text(json.dumps([mapping, {"path": "b", "bias": 0}, {"path": "a", "start": 0x8000, "offset": "0x1000"}]))
    assert read_modules(str(path)) == [
        LoadedModule("b", b"", bias=0),
        LoadedModule("a", b"", places=((0x7000, 0), (0x8000, 0x1000))),
    ]
    for more, problem in (
        ({"bias": 0}, "needs one of load_address, bias, and start with offset"),
        ({"offset": None}, "start needs the mapping's offset in the file"),
        ({"end": 0x7000}, "end must lie above start"),
        ({"start": "7000"}, "start must be a number of 64 bits"),
    ):
        path.write_text(json.dumps([{**mapping, **more}]))
        with pytest.raises(IcfError, match=f"modules: module 1: {problem}"):
            read_modules(str(path))


def test_the_text_of_proc_maps_as_a_list(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    path.write_text(
        "1000-2000 r--p 00000000 fe:00 7    /usr/bin/a (deleted)\n"
        "2000-3000 r-xp 00000000 fe:00 7    /usr/bin/a (deleted)\n"
        "4000-5000 r--p 00000000 fe:00 8    /usr/share/fonts\n"
        "6000-7000 r-xp 00000000 00:00 0    [vdso]\n"
    )
    (module,) = read_modules(str(path))
    assert (module.path, [each.start for each in module.mappings]) == ("/usr/bin/a", [0x1000, 0x2000])
    path.write_text("2000-3000 r-xp 00000000 fe:00 7 a\n1000-2000 r-xp 00000000 fe:00 7 a\n")
    with pytest.raises(IcfError, match="is not a mapping above those before it"):
        read_modules(str(path))


def test_where_an_image_lies() -> None:
    tiny = str(ROOT / "testdata" / "corrupt" / "tiny")  # linked at 0x400000
    with ImageFinder() as images:
        (placed,), missing = find_images([LoadedModule(tiny, b"", 0x555500000000, None)], images, None)
        assert (placed.bias, placed.start) == (0x555500000000 - 0x400000, 0x555500000000) and not missing
        (placed,), _ = find_images([LoadedModule(tiny, b"", None, (1 << 64) - 0x1000)], images, None)
        assert (placed.bias, placed.start) == (-0x1000, 0x400000 - 0x1000)
        with pytest.raises(IcfError, match="does not fit the address space"):
            find_images([LoadedModule(tiny, b"", None, -0x500000)], images, None)
        found, (problem,) = find_images([LoadedModule(tiny, b"ab", None, 0)], images, None)
        assert not found and problem.startswith(f"{tiny}: has build id ") and problem.endswith(", not 6162")
