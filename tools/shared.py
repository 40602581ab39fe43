"""Writes the `.pxd` of what kernels share, from the `.py` that uncompiled kernels import.

A kernel cannot inline a function of another extension, but it can inline what stands in a `.pxd`. So the helpers and
numbers that several kernels use are in a `name.py` that is not compiled itself, and `name.pxd` has the same once more:

    NAME, END = range(2)                          cdef enum:
                                                      NAME = 0
                                                      END = 1

    @cython.inline                                cdef inline u64 twice(Bytes buffer, size_t pos) nogil:
    def twice(buffer: Bytes, pos: cython.size_t)      cdef u64 value
              -> u64:                                 value = buffer[pos]
        value: u64 = buffer[pos]                      return 2 * value
        return 2 * value
"""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

SHARED = (
    "icf._bytes",
    "icf._sizes",
    "icf.code._emit",
    "icf.code._findings",
    "icf.code._paths",
    "icf.code._values",
    "icf.code.branch_kinds",
    "icf.code.operations",
    "icf.code.x86_64_opcodes",
    "icf.dwarf._attributes",
    "icf.dwarf._forms",
    "icf.dwarf._line_errors",
    "icf.dwarf._rows",
    "icf.dwarf._walk",
    "icf.dwarf.cfi.rules",
    "icf.dwarf.columns",
    "icf.dwarf.line_columns",
    "icf.dwarf.line_opcodes",
    "icf.pdb.columns",
    "icf.string_kinds",
    "unwind.arrow.columns",
    "unwind.readers.perf_data.layout",
    "unwind.readers.perf_data.rows",
    "unwind.resolve.columns",
    "unwind.samples._table",
    "unwind.samples.columns",
    "unwind.symbolize.marks",
    "unwind.symcache.builder.payload_columns",
    "unwind.symcache.format.records",
    "unwind.symcache.reader._records",
    "unwind.symcache.reader.columns",
    "unwind.trace.columns",
    "unwind.trace.layout",
    "unwind.trace.stack_columns",
    "unwind.trace.stretch_columns",
    "unwind.walk._evaluate",
    "unwind.walk._operations",
    "unwind.walk.columns",
    "unwind.writers.line_columns",
    "unwind.writers.stack_columns",
)
_IN_C = {*SHARED, "icf._types"}
_C_NAMES = {"uchar": "unsigned char", "ushort": "unsigned short", "uint": "unsigned int", "longlong": "long long"}


def pxd_of(source: Path) -> str:
    """Return the declarations of the constants and inline functions of a module."""
    parts = [f"# Written by tools/shared.py from {source.name}: change that."]
    names = runpy.run_path(str(source))
    constants = []
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names_in_c = [name for name in node.names if {node.module, f"{node.module}.{name.name}"} & _IN_C]
            what = ", ".join(name.name + (f" as {name.asname}" if name.asname else "") for name in names_in_c)
            parts += [f"from {node.module} cimport {what}"] if what else []
        elif isinstance(node, ast.Assign):
            stored = [
                name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            ]
            constants += [f"    {name} = {_number(names[name])}" for name in stored if isinstance(names.get(name), int)]
        elif isinstance(node, ast.FunctionDef) and "cython.inline" in map(ast.unparse, node.decorator_list):
            parts.append(_function(node))
    if constants:
        parts.append("cdef enum:\n" + "\n".join(constants))
    return "\n\n".join(parts) + "\n"


def _number(value: int) -> str:
    return hex(value) if value >= 0 else str(value)


def _function(node: ast.FunctionDef) -> str:
    """Return a function with its types as Cython writes them, without its docstring."""
    arguments = ", ".join(f"{_c_type(argument.annotation)} {argument.arg}" for argument in node.args.args)
    is_checked = "cython.exceptval(check=False)" not in map(ast.unparse, node.decorator_list)
    head = f"cdef inline {_c_type(node.returns)} {node.name}({arguments}) {'' if is_checked else 'noexcept '}nogil:"
    types = _Types()
    body = [types.visit(line) for line in node.body[1:]]
    text = "\n".join([*types.declared, *(ast.unparse(line) for line in body if line is not None)])
    return head + "\n" + re.sub(r"^", "    ", text, flags=re.MULTILINE)


class _Types(ast.NodeTransformer):
    """Takes the types of variables out of a function."""

    def __init__(self) -> None:
        self.declared: list[str] = []

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | None:
        self.declared.append(f"cdef {_c_type(node.annotation)} {ast.unparse(node.target)}")
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _c_type(annotation: ast.expr | None) -> str:
    """Return a type as Cython writes it: `cython.const[cython.uchar][::1]` is `const unsigned char[::1]`."""
    assert annotation is not None
    text = re.sub(r"cython\.const\[([\w.]+)\]", r"const \1", ast.unparse(annotation))
    text = re.sub(r"^tuple\[(.*)\]$", r"(\1)", text)
    return re.sub(r"cython\.(\w+)", lambda name: _C_NAMES.get(name[1], name[1]), text)


def write(root: Path) -> None:
    """Write each `.pxd` that is not what its source says."""
    for name in SHARED:
        source = root / (name.replace(".", "/") + ".py")
        target, text = source.with_suffix(".pxd"), pxd_of(source)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
