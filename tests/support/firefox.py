"""Profiles of the Firefox Profiler, written by hand."""

from __future__ import annotations

from typing import Any


def profile() -> dict[str, Any]:
    """A thread with two stacks: main, run and in it copy, inlined; main, do_syscall_64 in the kernel."""
    return {
        "meta": {"preprocessedProfileVersion": 49, "version": 24, "interval": 1, "startTime": 0, "symbolicated": True},
        "libs": [
            {"name": "shop", "path": "/bin/shop", "debugName": "shop", "debugPath": "/bin/shop", "codeId": "abcdef01"},
            {"name": "[kernel.kallsyms]", "path": "[kernel.kallsyms]", "codeId": None, "breakpadId": ""},
        ],
        "threads": [
            {
                "name": "worker",
                "processName": "shop",
                "pid": "17",
                "tid": 18,
                "samples": {
                    "stack": [2, 3, None, 2],
                    "time": [1.5, 2.5, 3.5, 4.5],
                    "weight": [1, 2, 3, 4],
                    "weightType": "samples",
                    "length": 4,
                },
                "stackTable": {"frame": [0, 1, 2, 3], "prefix": [None, 0, 1, 0], "length": 4},
                "frameTable": {
                    "address": [0x1180, 0x1136, 0x1136, 0x20],
                    "inlineDepth": [0, 0, 1, 0],
                    "category": [0, 0, 0, 0],
                    "func": [0, 1, 2, 3],
                    "nativeSymbol": [0, 1, 1, None],
                    "line": [9, 80, 12, None],
                    "column": [None, None, None, None],
                    "length": 4,
                },
                "funcTable": {
                    "name": [0, 1, 2, 3],
                    "isJS": [False, False, False, False],
                    "resource": [0, 0, 0, 1],
                    "fileName": [4, 4, 5, None],
                    "length": 4,
                },
                "resourceTable": {"lib": [0, 1], "name": [6, 7], "host": [None, None], "type": [1, 1], "length": 2},
                "nativeSymbols": {
                    "libIndex": [0, 0],
                    "address": [0x1170, 0x1130],
                    "name": [0, 1],
                    "functionSize": [None, None],
                    "length": 2,
                },
                "markers": {"data": [], "name": [], "length": 0},
                "stringArray": ["main", "run", "copy", "do_syscall_64", "a.c", "list.h", "shop", "kernel"],
            }
        ],
    }


def check_valid(written: dict[str, Any]) -> None:
    """Check what the types of the format say of rows and columns: firefox-devtools/profiler, src/types/profile.ts."""
    meta = written["meta"]
    assert {"interval", "startTime", "version", "preprocessedProfileVersion"} <= set(meta)
    for thread in written["threads"]:
        assert isinstance(thread["pid"], str)
        tables = {**written.get("shared", {}), **thread}
        strings = tables["stringArray"]
        counts = {}
        for name in ("samples", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers"):
            counts[name] = tables[name]["length"]
            for column, rows in tables[name].items():
                assert not isinstance(rows, list) or len(rows) == counts[name], f"{name}.{column}"

        def check(table: str, column: str, count: int, *others: object) -> None:
            for row in tables[table][column]:  # noqa: B023
                assert row in others or (type(row) is int and 0 <= row < count), f"{table}.{column}: {row}"

        check("samples", "stack", counts["stackTable"], None)
        check("stackTable", "frame", counts["frameTable"])
        assert all(prefix is None or prefix < row for row, prefix in enumerate(tables["stackTable"]["prefix"]))
        check("frameTable", "func", counts["funcTable"])
        check("frameTable", "nativeSymbol", counts["nativeSymbols"], None)
        check("frameTable", "address", 1 << 64, -1)
        check("funcTable", "name", len(strings))
        check("funcTable", "resource", counts["resourceTable"], -1)
        check("funcTable", "fileName", len(strings), None)
        check("resourceTable", "lib", len(written["libs"]), None)
        check("resourceTable", "name", len(strings))
        check("nativeSymbols", "libIndex", len(written["libs"]))
        check("nativeSymbols", "name", len(strings))
        assert tables["samples"]["time"] == sorted(tables["samples"]["time"])
