"""`icf resolve --explain` on a real program: the facts as printed, addresses by the functions they are in."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import LLD, Workshop

SOURCE = """
    volatile int seed = 1;
    int total;
    NOINLINE void apples(int n) { SAMPLE(); total += n; }
    NOINLINE void pears(int n) { SAMPLE(); total += n; }
    NOINLINE void wash_apples(int n) { total += 1; apples(n + 1); }
    NOINLINE void wash_pears(int n) { total += 1; pears(n + 1); }
    void (*volatile handler)(int) = pears;
    int main() { wash_apples(seed); handler(seed); return 0; }
"""


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_the_facts_of_each_frame(workshop: Workshop) -> None:
    program = workshop.build_with_tables(SOURCE)
    stacks = workshop.folder / "stacks"
    stacks.write_text("".join(f"{stack}\n" for stack in program.stacks()))
    text = icf("resolve", "--explain", "--no-lines", "-e", program.folded, stacks)
    numbered: dict[int, str] = {}
    text = re.sub("0x[0-9a-f]+", lambda match: numbered.setdefault(int(match[0], 16), f"@{len(numbered)}"), text)
    assert [block[block.index("#1") : block.index("#3")] for block in text.split("\n\n")[:-1]] == [
        """\
#1  @2  apples(int)  [unique, relocation]
        - 2 functions share the body at @3: pears(int), apples(int)
        - main calls wash_apples(int) before @4 (relocation), which tail-calls into this body
        - excluded pears(int): not reachable from that call
    @5  wash_apples(int)  [unique, tail call]
        - entered by the call before @4
        - every path from the call to the frame leads through it, by its jump at @5
#2  @4  main
        - the body at @6 has one function
""",
        """\
#1  @2  pears(int)  [unique, decoded]
        - 2 functions share the body at @3: pears(int), apples(int)
        - main calls through a pointer before @9
        - excluded apples(int): no pointer leads to it: its address is not taken, and no vtable has it
#2  @9  main
        - the body at @6 has one function
""",
    ]
    explained = icf("resolve", "--explain", "--out", "json", "-e", program.folded, stacks).splitlines()
    frames = [json.loads(line)["frames"] for line in explained]
    assert frames[0][1]["explain"][1].startswith("main calls wash_apples(int) before 0x")
    assert all("explain" in frame for stack in frames for frame in stack)


RECURSION = """
    int total;
    NOINLINE void apples() { SAMPLE(); ++total; }
    NOINLINE void pears() { SAMPLE(); ++total; }
    NOINLINE void odd(int n);
    NOINLINE void even(int n) { if (n) odd(n - 1); else SAMPLE(); ++total; }
    NOINLINE void odd(int n) { if (n) even(n - 1); else SAMPLE(); ++total; }
    NOINLINE void pick_apples(int n) { if (n) pick_apples(n - 1); else apples(); ++total; }
    NOINLINE void pick_pears(int n) { if (n) pick_pears(n - 1); else pears(); ++total; }
    void (*volatile handlers[])(int) = {even, odd, pick_apples, pick_pears};
    int main(int argc, char **) { handlers[argc](2); handlers[argc + 1](1); even(1); return 0; }
"""


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_where_an_ambiguity_begins_and_who_passes_it_on(workshop: Workshop) -> None:
    program = workshop.build_with_tables(RECURSION)
    stacks = workshop.folder / "stacks"
    stacks.write_text("".join(f"{stack}\n" for stack in program.stacks()))
    text = re.sub("0x[0-9a-f]+", "@", icf("resolve", "--explain", "--out", "json", "-e", program.folded, stacks))
    found = []
    for line in text.splitlines():
        explained = [frame["explain"] for frame in json.loads(line)["frames"]]
        found.append([[fact for fact in facts if re.search("^calls of|begins", fact)] for facts in explained[:4]])
    each_other = "calls of odd(int), even(int) lead to each other: this frame is one of several as its caller is"
    itself = each_other.replace("odd(int), even(int)", "each of pick_pears(int), pick_apples(int)").replace(
        "to each other", "back to it"
    )
    by_pointer = "indirect call before @"
    begins = f"the doubt begins with #3, one of odd(int), even(int): {by_pointer}"
    picked = f"the doubt begins with #3, one of pick_pears(int), pick_apples(int): {by_pointer}"
    assert found == [
        [[], [each_other, begins], [each_other, begins], []],
        [[], [picked], [itself, picked], []],
        [[], [], [], []],  # main names the function that it calls
    ]
