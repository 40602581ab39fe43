"""Who may import whom: floors between the packages, between the folders of a package, and no circle between files.

`linkpass` and `unwind` build on `icf` and never import each other: what the two exchange is bytes in formats that
`icf` owns. Inside of a package each folder, and each file that lies in none, has a floor. A file imports files of its
own folder and of lower floors; files of one folder do not import each other in a circle.

The check reads every import of every file: those inside of functions, those for types only (TYPE_CHECKING), and what
kernels `cimport`. The command `icf` names its verbs as strings, which are not imports.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

MAY_IMPORT = {
    "icf": {"icf"},
    "linkpass": {"linkpass", "icf"},
    "unwind": {"unwind", "icf"},
}

# The floors of each package, the lowest first. A name is that of a folder, or of a file that lies in none; a folder may
# have floors inside ("symcache.format", "symcache.read"). The package's __init__.py imports what it exports.
FLOORS: dict[str, tuple[str, ...]] = {
    "icf": (
        "errors model columns garbage heap linkers kernels newfile printable signals string_kinds threads",
        "_types _nocython overwriting",
        "sets",
        "pairs",
        "reader filebytes filedigest cachefolder log _bytes _sizes",
        "_strings _mangled _mangled_rust contents",
        "microsoft_names strings",
        "demangle",
        "aliases elf pdb",
        "coff",
        "pe",
        "image remote",
        "code vtables debugfiles linkinputs",
        "dwarf",
        "tables",
        "folds callsites",
        "cmd_dump",
        "cli",
        "__main__",
    ),
    "linkpass": (
        "background pointer_jumps relocation_types keep_unique",
        "rewrite",
        "options scanning pe",
        "linked",
        "objects",
        "evidence compiler_merging annotate distinct",
        "pointers addrsig",
        "tables",
        "steps second_reader",
        "pipeline",
        "summary",
        "link",
        "cmd_annotate cmd_cc cmd_link cmd_pass cmd_verify",
    ),
    "unwind": (
        "samples",
        "program",
        "symcache.format",
        "symcache.reader",
        "symcache.builder",
        "symcache.store",
        "process.jit",
        "process",
        "process.live",
        "walk",
        "dumps",
        "objects",
        "callgraph",
        "symbolize",
        "disasm",
        "trace",
        "resolve",
        "second_reader",
        "arrow",
        "readers",
        "writers",
        "snapshot",
        "target",
        "batch",
        "report",
        "logs",
        "debugger.inside",
        "debugger",
        "options output",
        "flow",
        "cmd_cache_servers",
        "cmd_cache",
        "cmd_disasm",
        "cmd_gdb cmd_lldb",
        "cmd_graph",
        "record",
        "cmd_record",
        "cmd_report",
        "cmd_resolve",
        "cmd_snapshot",
        "cmd_stacks",
        "cmd_symbolize",
        "cmd_trace",
    ),
}

_CIMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+cimport\s+([\w ,]+)|cimport\s+([\w.]+))", re.MULTILINE)


class Import(NamedTuple):
    line: int
    module: str  # with "icf.elf" for `from icf import elf`
    name: str  # what is taken from the module; "" for `import module`


@cache
def imports_of(source: str) -> tuple[Import, ...]:
    """Return each import of a Python file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: imports by absolute names only"
            module = (node.module or "").removeprefix("cython.cimports.")
            found += [Import(node.lineno, module, alias.name) for alias in node.names]
    return tuple(found)


def cimports_of(source: str) -> Iterator[Import]:
    """Yield each import of a .pxd file."""
    for match in _CIMPORT.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        for name in (match[2] or "").split(","):
            yield Import(line, match[1] or match[3], name.split(" as ")[0].strip())


class Link(NamedTuple):
    """File `importer` imports file `imported`, both as modules."""

    importer: str
    imported: str
    line: int


def read_links(root: Path, package: str) -> tuple[set[str], list[Link]]:
    """Return the modules of a package, and which of them imports which."""
    files = {}
    for file in sorted((root / package).rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    links = []
    for module, file in files.items():
        found = list(imports_of(file.read_text()))
        if file.with_suffix(".pxd").exists():
            found += cimports_of(file.with_suffix(".pxd").read_text())
        for line, imported, name in found:
            target = f"{imported}.{name}" if f"{imported}.{name}" in files else imported
            if target.partition(".")[0] == package and target != module:
                assert target in files, f"{file.relative_to(root)}:{line}: {target} is not a file"
                links.append(Link(module, target, line))
    return set(files), links


def place_of(module: str, floors: tuple[str, ...]) -> tuple[str, int]:
    """Return the folder or file of a module that has a floor, and its floor (0 is the lowest); "" is the package."""
    ranks = {name: rank for rank, names in enumerate(floors) for name in names.split()}
    name = module.partition(".")[2]
    if not name:
        return "", -1
    while name and name not in ranks:
        name = name.rpartition(".")[0]
    assert name, f"{module} has no floor: give its folder one in {Path(__file__).name}"
    return name, ranks[name]


def upward(links: list[Link], floors: tuple[str, ...]) -> list[str]:
    """Return a line for each import of a folder that is not on a lower floor."""
    found = []
    for importer, imported, line in links:
        (above, high), (below, low) = place_of(importer, floors), place_of(imported, floors)
        if above and above != below and high <= low:
            found.append(f"{importer}:{line} imports {imported}: floor {high} imports floor {low}")
    return found


def circle(links: list[Link]) -> list[str]:
    """Return the modules of one circle, none if there is none."""
    graph: dict[str, set[str]] = {}
    for importer, imported, _ in links:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        for line, module, _ in imports_of(file.read_text()):
            name = module.partition(".")[0]
            where = f"{file.relative_to(ROOT)}:{line}"
            assert name != "tests", where
            assert name not in MAY_IMPORT or name in MAY_IMPORT[package], f"{where}: {package} imports {name}"


@pytest.mark.parametrize("package", FLOORS)
def test_every_folder_has_a_floor_and_every_floor_a_folder(package: str) -> None:
    modules, _ = read_links(ROOT, package)
    folders = {module.rpartition(".")[0] for module in modules}
    used = {place_of(module, FLOORS[package])[0] for module in modules - folders}
    assert used == set(" ".join(FLOORS[package]).split())


@pytest.mark.parametrize("package", FLOORS)
def test_imports_go_down(package: str) -> None:
    assert upward(read_links(ROOT, package)[1], FLOORS[package]) == []


@pytest.mark.parametrize("package", FLOORS)
def test_files_import_each_other_in_no_circle(package: str) -> None:
    assert circle(read_links(ROOT, package)[1]) == []


# The check itself

PLANTED_FLOORS = ("errors", "formats", "cli")


def plant(root: Path, **sources: str) -> list[Link]:
    """Write the files of a package, those of `formats/` and those beside it, and return their links."""
    (root / "shop" / "formats").mkdir(parents=True)
    for name in ("__init__", "errors", "cli"):
        (root / "shop" / f"{name}.py").write_text(sources.get(name, ""))
    for name in ("__init__", "elf", "symbols"):
        (root / "shop" / "formats" / f"{name}.py").write_text(sources.get(name, ""))
    (root / "shop" / "formats" / "symbols.pxd").write_text(sources.get("pxd", ""))
    return read_links(root, "shop")[1]


def test_what_goes_down_is_fine(tmp_path: Path) -> None:
    links = plant(
        tmp_path, cli="from shop.formats import elf", elf="import shop.errors\nfrom shop.formats import symbols"
    )
    assert len(links) == 3
    assert upward(links, PLANTED_FLOORS) == [] and circle(links) == []


@pytest.mark.parametrize(
    "planted",
    [
        "from shop.cli import main",
        "from shop import cli",
        "import shop.cli as command",
        "def main():\n    import shop.cli",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.cli import main",
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, planted: str) -> None:
    (found,) = upward(plant(tmp_path, elf=planted), PLANTED_FLOORS)
    assert found.startswith("shop.formats.elf:") and found.endswith("imports shop.cli: floor 1 imports floor 2")


def test_an_import_of_the_same_floor_is_found(tmp_path: Path) -> None:
    links = plant(tmp_path, elf="import shop.errors")
    assert upward(links, ("errors formats", "cli")) == [
        "shop.formats.elf:1 imports shop.errors: floor 0 imports floor 0"
    ]


@pytest.mark.parametrize(
    "back", [{"symbols": "def f():\n    from shop.formats.elf import x"}, {"pxd": "from shop.formats.elf cimport x"}]
)
def test_a_circle_between_files_of_a_folder_is_found(tmp_path: Path, back: dict[str, str]) -> None:
    links = plant(tmp_path, elf="from shop.formats.symbols import y", **back)
    assert upward(links, PLANTED_FLOORS) == []
    assert set(circle(links)) == {"shop.formats.elf", "shop.formats.symbols"}


def test_a_file_without_a_floor_is_found(tmp_path: Path) -> None:
    links = plant(tmp_path, elf="import shop.errors")
    with pytest.raises(AssertionError, match=r"shop\.errors has no floor"):
        upward(links, ("formats", "cli"))


def test_kernels_import_with_cimport() -> None:
    source = "cimport cython\n\nfrom icf._types cimport Bytes, u64\nfrom icf.dwarf cimport columns as col\n"
    assert list(cimports_of(source)) == [
        (1, "cython", ""),
        (3, "icf._types", "Bytes"),
        (3, "icf._types", "u64"),
        (4, "icf.dwarf", "columns"),
    ]
    python = "if compiled:\n    from cython.cimports.icf.dwarf import columns as col\n"
    assert imports_of(python) == ((2, "icf.dwarf", "columns"),)


def test_no_test_imports_another_test() -> None:
    """What tests share is in tests/support, or in a module beside them whose name does not begin with test_."""
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for line, module, name in imports_of(file.read_text()):
            parts = [*module.split("."), name]
            is_test = parts[0] == "tests" and any(part.startswith("test_") for part in parts[1:])
            assert not is_test, f"{file.relative_to(ROOT)}:{line} imports {module}.{name}"
