"""Rows of a trace as lines of text, or as JSON objects.

    1000  0x7ff43745ec9d  41 0f b6 14 06           movzx  edx, byte ptr [r14 + rax]

    {"instruction":1000,"tid":1674735,"pc":"0x7ff43745ec9d","bytes":"410fb61406","kind":"instruction",
     "text":"movzx edx, byte ptr [r14 + rax]","is_new":true}

An indirect branch has its `target`. `kernel` marks what the kernel executed. Data have `access`, `address` and `size`,
markers `marker` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.decode import DecodeCache
from unwind.trace.reader import TraceReader

KINDS = {
    k.INSTRUCTION: "instruction",
    k.DIRECT_JUMP: "direct jump",
    k.INDIRECT_JUMP: "indirect jump",
    k.CONDITIONAL_JUMP: "conditional jump",
    k.DIRECT_CALL: "direct call",
    k.INDIRECT_CALL: "indirect call",
    k.RETURN: "return",
    k.NO_FETCH: "repetition",
    k.SYSENTER: "sysenter",
    k.TAKEN_JUMP: "taken jump",
    k.UNTAKEN_JUMP: "untaken jump",
}
_MARKERS = {
    k.KERNEL_EVENT: "kernel event",
    k.KERNEL_XFER: "kernel transfer",
    k.TIMESTAMP: "timestamp",
    k.CPU_ID: "cpu",
    k.FILETYPE: "filetype",
    k.VERSION: "version",
    k.CHUNK_INSTR_COUNT: "instructions in a chunk",
    k.CHUNK_FOOTER: "chunk footer",
    k.SYSCALL_TRACE_START: "system call trace start",
    k.SYSCALL_TRACE_END: "system call trace end",
    k.CONTEXT_SWITCH_START: "context switch start",
    k.CONTEXT_SWITCH_END: "context switch end",
}
_RECORDS = {k.THREAD: "thread", k.THREAD_EXIT: "thread exit", k.PID: "pid", k.HEADER: "header", k.FOOTER: "footer"}
_ACCESSES = {k.READ: "read", k.WRITE: "write"}

Object = dict[str, Any]
Name = Callable[[int], str]  # of the function at an address


def objects(
    reader: TraceReader, open_cache: Callable[[TraceReader], DecodeCache], name: Name | None = None
) -> Iterator[Object]:
    """Yield what the rows of a reader say; the cache is opened at the first instruction."""
    number, cache = reader.state[c.INSTRUCTIONS], None
    tid = reader.state[c.TID]
    for rows in reader.rows():
        for row in range(len(rows)):
            what, address, target = rows[row, c.WHAT], rows[row, c.ADDRESS], rows[row, c.TARGET]
            kind, size = what & c.TYPE_MASK, what >> c.SIZE_SHIFT & 0xFFFF
            made: Object
            if kind == k.THREAD:
                tid = address
            if kind in KINDS and size:
                cache = cache or open_cache(reader)
                made = {"instruction": number, "tid": tid, "pc": hex(address)}
                made |= _instruction(reader, cache, what, address)
                if kind in (k.INDIRECT_JUMP, k.INDIRECT_CALL, k.RETURN) and target:
                    made["target"] = hex(target)
                if name is not None:
                    made["name"] = name(address)
                number += kind != k.NO_FETCH
            elif kind == k.MARKER:
                made = {"marker": _MARKERS.get(size, size), "value": address}
            elif kind in _RECORDS:
                made = {"record": _RECORDS[kind], "value": address}
            else:
                made = {"access": _ACCESSES.get(kind, kind), "address": hex(address), "size": size}
            if what & c.IN_KERNEL:
                made["kernel"] = True
            yield made


def _instruction(reader: TraceReader, cache: DecodeCache, what: int, address: int) -> Object:
    decoded = cache.instruction(reader.codes, what >> c.CODE_SHIFT)
    return {
        "bytes": decoded.code.hex(),
        "kind": KINDS[what & c.TYPE_MASK],
        "text": f"{decoded.mnemonic} {decoded.operands}".rstrip(),
        "is_new": bool(what & c.IS_NEW),
    }


def as_json(made: Object) -> str:
    """Return an object as a line."""
    return json.dumps(made, separators=(",", ":"))


def as_text(made: Object) -> str:
    """Return an object as a line for people."""
    if "pc" in made:
        code = " ".join(made["bytes"][at : at + 2] for at in range(0, len(made["bytes"]), 2))
        mnemonic, _, operands = made["text"].partition(" ")
        target = f"  -> {made['target']}" if "target" in made else ""
        line = f"{made['instruction']:>10}  {made['pc']:<16}  {code:<30}  {mnemonic:<6} {operands}{target}".rstrip()
        return f"{line}  <{made['name']}>" if made.get("name") else line
    if "access" in made:
        return f"{'':>12}{made['access']} {made['address']}, {made['size']} bytes"
    return f"{'':>12}[{made.get('marker', made.get('record'))} {made['value']}]"
