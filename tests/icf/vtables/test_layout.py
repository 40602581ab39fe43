"""Groups, address points, slots: word by word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.vtables.layout import Vtables
from tests.support.vtables import CODE, DATA, build_image

F, G, H = CODE, CODE + 8, CODE + 16
TYPE = DATA  # a word that stands for a type_info
PLACED = {
    "one vtable": ([0, TYPE, F, G], {(2, 0): F, (2, 1): G}),
    "two bases": ([0, TYPE, F, -16, TYPE, G, H], {(2, 0): F, (5, 0): G, (5, 1): H}),
    "virtual bases": ([32, 24, 0, TYPE, F, -8, 0, -24, TYPE, G], {(4, 0): F, (9, 0): G}),
    "empty slots": ([0, TYPE, 0, F, 0, -16, TYPE, 0, G], {(2, 1): F, (7, 1): G}),
    "no slots": ([8, 0, TYPE], {}),
    "no type_info": ([0, 0, F, G], {(2, 0): F, (2, 1): G}),
    "no type_info, offset of a base": ([16, 0, 0, F], {(3, 0): F}),
    "no type_info, two bases": ([0, 0, F, -16, 0, 0, G], {(2, 0): F, (5, 1): G}),
    "no type_info, an empty slot between": ([0, 0, F, 0, 0, G], {(2, 0): F, (2, 3): G}),
    "no type_info, an offset or an empty slot": ([0, 0, 0, F], {(2, 1): F, (3, 0): F}),
    "relative": ([-0x1000_0000_2000, 0x10_0000_2000], {}),
}
UNPLACED = {
    "function first": [F, G],
    "no offset to top": [TYPE, F],
    "no type_info, no offset to top": [0, F],
    "no type_info, many zeros": [0] * 40 + [F],
    "function, number, function": [0, 0, F, -16, G],
}


@pytest.mark.parametrize("packing", ["", "rela", "relr"])
@pytest.mark.parametrize("words, slots", PLACED.values(), ids=PLACED)
def test_slots(words: list[int], slots: dict[tuple[int, int], int], packing: str, tmp_path: Path) -> None:
    with build_image(tmp_path, {"type": [0], "_ZTV1A": words}, packing=packing) as image:
        vtables = Vtables(image)
        found = vtables.slots
        rows = zip(found.vtable.tolist(), found.slot.tolist(), found.target.tolist(), strict=True)
        assert {((vtable - DATA - 8) // 8, slot): target for vtable, slot, target in rows} == slots
        assert vtables.groups.is_placed.all() and vtables.groups.start.tolist() == [DATA + 8]
        assert (vtables.at(found.place) == DATA + 8).all() and not vtables.are_unplaced(found.place).any()


@pytest.mark.parametrize("words", UNPLACED.values(), ids=UNPLACED)
def test_words_that_fit_no_layout(words: list[int], tmp_path: Path) -> None:
    with build_image(tmp_path, {"type": [0], "_ZTV1A": words, "_ZTV1B": [0, TYPE, F]}) as image:
        vtables = Vtables(image)
        assert vtables.groups.is_placed.tolist() == [False, True] and vtables.slots.target.tolist() == [F]
        place = np.array([DATA + 8 + 8 * (len(words) - 1)], np.uint64)
        assert not vtables.at(place).any()
        assert vtables.are_unplaced(place).tolist() == [len(words) > 2]


def test_imports_are_slots_without_a_body(tmp_path: Path) -> None:
    words = [0, 0, F, 0, G]
    imports = {DATA + 8: "_ZTI1B", DATA + 24: "_ZN1B1fEv"}
    with build_image(tmp_path, {"_ZTV1A": words}, packing="rela", imports=imports) as image:
        vtables = Vtables(image)
        assert vtables.slots.slot.tolist() == [0, 2] and vtables.slots.target.tolist() == [F, G]
        assert vtables.groups.imports_typeinfo.all()
        assert image.dynamic_symbols.name(int(vtables.groups.typeinfo[0])) == "_ZTI1B"
        bound = vtables.bound  # the type_info is no slot
        assert bound.slot.tolist() == [1] and bound.place.tolist() == [DATA + 24]
        assert image.dynamic_symbols.name(int(bound.symbol[0])) == "_ZN1B1fEv"


def test_a_group_with_an_import_before_its_slots_has_none_that_are_bound(tmp_path: Path) -> None:
    imports = {DATA: "_ZN1B1fEv", DATA + 24: "_ZN1B1gEv"}
    with build_image(tmp_path, {"_ZTV1A": [0, 0, F, 0, G]}, packing="rela", imports=imports) as image:
        assert not len(Vtables(image).bound.slot)


def test_a_number_that_looks_like_an_address_is_none_where_there_is_a_relocation_for_each(tmp_path: Path) -> None:
    words = [F, 0, 0, G]  # the virtual base is as far away as the function
    imports = {DATA + 16: "_ZTI1A"}
    with build_image(tmp_path, {"_ZTV1A": words}, packing="rela", imports=imports, numbers={DATA}) as image:
        assert Vtables(image).slots.slot.tolist() == [0]


def test_whether_a_vtable_is_that_of_one_class(tmp_path: Path) -> None:
    tables = {"type": [0], "_ZTV1A": [0, TYPE, F], "_ZTV1B,_ZTV1C": [0, TYPE, G], "_ZTV1D": [0, 0, H]}
    with build_image(tmp_path, tables) as image:
        vtables = Vtables(image)
        assert vtables.are_one(vtables.groups.start).tolist() == [True, False, False]
