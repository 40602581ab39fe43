"""The slots of vtables that the loader fills by name."""

from __future__ import annotations

from pathlib import Path

from tests.support.vtables import CODE, DATA, build_image
from unwind.program.bound_slots import BoundSlots
from unwind.program.image_bound_slots import find_bound_slots, has_classes


def test_slots_of_an_image(tmp_path: Path) -> None:
    words = [0, DATA + 8, CODE, 0, 0, -16, DATA + 8, 0]
    imports = {DATA + 24: "_ZN1B1fEv", DATA + 32: "__cxa_pure_virtual", DATA + 56: "_ZN1C1gEv"}
    with build_image(tmp_path, {"_ZTV1A": words}, packing="rela", imports=imports) as image:
        slots = BoundSlots(lambda: find_bound_slots(image))
        assert has_classes(image)
        found = [(vtable.vaddr, vtable.group, vtable.slots) for vtable in slots.group_of(DATA + 56)]
        assert found == [
            (DATA + 16, DATA, ((1, "_ZN1B1fEv"),)),
            (DATA + 56, DATA, ((0, "_ZN1C1gEv"),)),
        ]
        assert slots.symbol_of(DATA + 16) == "_ZTV1A" and slots.names_in(0) == {"_ZN1C1gEv"}
        assert slots.group_of(DATA + 24) == ()


def test_an_image_without_vtables(tmp_path: Path) -> None:
    with build_image(tmp_path, {"table": [CODE, CODE + 8]}) as image:
        assert not has_classes(image)
        assert BoundSlots(lambda: find_bound_slots(image)).group_of(DATA) == ()
    assert BoundSlots().group_of(DATA) == () and BoundSlots().names_in(0) == frozenset()
