"""A call of an ifunc calls what its resolver chooses, and not the function whose address it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.program import icf
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
