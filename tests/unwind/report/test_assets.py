"""The vendored library is the one that its README describes."""

from __future__ import annotations

import hashlib
import re

from tests.support.paths import ROOT

ASSETS = ROOT / "unwind" / "report" / "assets"
README = (ASSETS / "README.md").read_text()


def test_the_library_is_as_published() -> None:
    content = (ASSETS / "flamegraph.min.js").read_bytes()
    head, end, bundle = content.partition(b"*/\n")
    assert end and [hashlib.sha256(part).hexdigest() for part in (bundle, content)] == re.findall(
        r"^    ([0-9a-f]{64})$", README, re.MULTILINE
    )


def test_the_library_does_not_evaluate_text() -> None:
    text = (ASSETS / "flamegraph.min.js").read_text()
    assert not re.search(r"\beval\(|new Function|</script", text)


def test_each_package_has_its_license() -> None:
    packages = set(re.findall(r"(d3-[a-z-]+)@([0-9.]+)", README))
    licenses = (ASSETS / "flamegraph.LICENSES.txt").read_text()
    assert len(packages) == 12
    for name, version in packages:
        assert re.search(rf"^    {name} {re.escape(version)} .*(ISC|BSD|Apache)", licenses, re.MULTILINE), name
    assert all(text in licenses for text in ("Apache License", "Permission to use, copy", "Redistribution and use"))
