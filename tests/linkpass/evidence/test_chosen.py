"""A call of an ifunc calls what its resolver chooses, and not the function whose address it has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.program import icf, resolved
from tests.support import toolchain

SOURCE = """
extern volatile int total;
#define ONE(n) \\
  extern "C" int plain##n(int m) { total = m; return total + 1; } \\
  extern "C" int fast##n(int m) { total = m; return total + 1; } \\
  extern "C" int (*choose##n())(int) { return total ? plain##n : fast##n; } \\
  extern "C" __attribute__((ifunc("choose" #n))) int version##n(int m); \\
  extern "C" int call##n(int m) { int r = version##n(m); total += n; return r; }
ONE(1) ONE(2)
volatile int total;
"""


@pytest.mark.parametrize(("linker", "flag"), [("gold", "-g"), ("lld", "-g"), ("lld", "-Wl,--emit-relocs")])
def test_no_record_names_an_ifunc(tmp_path: Path, linker: str, flag: str) -> None:
    built = toolchain.compile_object(SOURCE, "-O2", "-g", "-fPIC", "-ffunction-sections")
    library = toolchain.link(tmp_path / "library.so", linker, "-shared", "-Wl,--icf=all", flag, built)
    icf("pass", "-q", library, "--objects", built)
    found = json.loads(icf("dump", "--json", library))
    members = {each["linkage_name"] for fold in found["classes"] for each in fold["members"]}
    assert {"plain1", "plain2", "fast1", "fast2"} <= members
    assert not {"version1", "version2"} & members
    assert not any(call["callee"].startswith("version") for call in found["direct_calls"])


FOLDING = """
extern volatile int total;
extern "C" int plain(int m) { total = m; return total + 1; }
extern "C" int same(int m) { total = m; return total + 1; }
#define ONE(n) \\
  extern "C" int (*choose##n())(int) { return total ? plain : same; } \\
  extern "C" __attribute__((ifunc("choose" #n))) int version##n(int m); \\
  extern "C" int call##n(int m) { int r = version##n(m); total += n; return r; }
ONE(1) ONE(2)
volatile int total;
"""


def test_resolvers_that_fold_are_not_what_is_called(tmp_path: Path) -> None:
    built = toolchain.compile_object(FOLDING, "-O2", "-g", "-fPIC", "-ffunction-sections")
    library = toolchain.link(tmp_path / "library.so", "gold", "-shared", "-Wl,--icf=all", built)
    icf("pass", "-q", library, "--objects", built)
    code = toolchain.run(toolchain.tool("objdump"), "-d", "--no-show-raw-insn", library).stdout
    plain = re.search(r"^(\w+) <(?:plain|same)>:", code, re.MULTILINE)
    after_calls = re.findall(r"call .*<version\d@plt>\n *(\w+):", code)
    assert plain is not None and len(after_calls) == 2
    stacks = tmp_path / "stacks"
    stacks.write_text("".join(f"0x{plain[1]} 0x{end}\n" for end in after_calls))
    for frames in resolved("-e", library, stacks):
        assert [frame["verdict"] for frame in frames] == ["ambiguous", "unmerged"]
        assert frames[0]["candidates"] == ["plain", "same"]
