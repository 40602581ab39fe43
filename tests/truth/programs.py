"""The programs measured on: where their sources come from, with which flags they compile, how they are run.

    CACHE/src/NAME-VERSION                  unpacked Debian source package (or the generated program)

CACHE is `.cache/truth` in the repository, or $ICF_TRUTH_CACHE. What is there is used as it is. Debian's archive is
reached through private apt folders, so the system's configuration stays untouched; where it cannot be reached,
`Unavailable` says so.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support import toolchain
from tests.truth.composites import write_composites, write_promises
from tests.truth.forms import write_forms
from tests.truth.generated import write_sources
from tests.truth.inner import write_inner
from tests.truth.locals import write_locals
from tests.truth.statics import write_statics
from tests.truth.virtuals import write_virtuals
from tests.truth.visitors import write_visitors

CACHE = Path(os.environ.get("ICF_TRUTH_CACHE", Path(__file__).parents[2] / ".cache" / "truth"))


class Unavailable(Exception):
    """A source, compiler or linker is not to be had here; the text says which."""


@dataclass(frozen=True)
class Program:
    name: str
    sources: Callable[[Path], list[Path]]  # from the source folder
    flags: Callable[[Path], list[str]]
    runs: Callable[[Path, Path], list[tuple[Path, list[str]]]]  # (source, run folder) -> working folder, arguments
    package: str = ""  # Debian source package; none for the generated program
    gap: int = 200  # mean ticks between samples


def find(name: str) -> str:
    """Path of a tool; raises Unavailable."""
    path = toolchain.find(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def fetch(package: str, cache: Path = CACHE) -> Path:
    """Folder of an unpacked Debian source package."""
    sources = cache / "src"
    present = sorted(path for path in sources.glob(f"{package}-*") if path.is_dir())
    if present:
        return present[0]
    apt = cache / "apt"
    for folder in (sources, apt / "parts", apt / "lists" / "partial", apt / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    listed = Path("/etc/apt/sources.list.d/debian.sources")
    if not listed.exists():
        raise Unavailable("no Debian source archive is configured")
    types = [
        "Types: deb-src" if line.startswith("Types:") else line
        for line in listed.read_text().splitlines(keepends=False)
    ]
    (apt / "parts" / "debian.sources").write_text("\n".join(types) + "\n")
    command = [
        find("apt-get"),
        "-oDir::Etc::sourcelist=/dev/null",
        f"-oDir::Etc::sourceparts={apt / 'parts'}",
        f"-oDir::State::lists={apt / 'lists'}",
        f"-oDir::Cache={apt / 'cache'}",
        "-oAPT::Sandbox::User=root",
    ]
    unpack = find("dpkg-source")
    for arguments in (["update"], ["source", "--download-only", package]):
        done = subprocess.run([*command, *arguments], cwd=sources, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{package}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    for description in sources.glob(f"{package}_*.dsc"):
        subprocess.run([unpack, "-x", "--no-check", description.name], cwd=sources, capture_output=True, check=True)
    return sorted(path for path in sources.glob(f"{package}-*") if path.is_dir())[0]


def _generated_runs(_source: Path, _folder: Path) -> list[tuple[Path, list[str]]]:
    return [(Path(), [])]


def _ninja_sources(source: Path) -> list[Path]:
    unwanted = ("_test.cc", "perftest.cc", "win32.cc", ".in.cc", "bench.cc")
    unwanted_names = {"test.cc", "browse.cc", "msvc_helper.cc"}
    for name in ("getopt.h", "getopt.c"):  # the bundled one hides glibc's
        (source / "src" / name).unlink(missing_ok=True)
    found = sorted((source / "src").glob("*.cc"))
    return [path for path in found if not path.name.endswith(unwanted) and path.name not in unwanted_names]


def _ninja_runs(_source: Path, folder: Path) -> list[tuple[Path, list[str]]]:
    """A made-up project: 40 libraries of 10 objects with dependency files, run dry and through the tools."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["ninja_required_version = 1.5", "flags = -O2 -Wall", "rule cc", "  command = cc $flags -MD -c $in -o $out"]
    lines += ["  description = CC $out", "  depfile = $out.d", "  deps = gcc", "rule ar", "  command = ar crs $out $in"]
    lines += ["pool link", "  depth = 2", "rule ld", "  command = ld -o $out $in", "  pool = link"]
    for library in range(40):
        objects = [f"lib{library}/part{part}.o" for part in range(10)]
        for target in objects:
            lines += [
                f"build {target}: cc {target[:-1]}c | common.h || gen{library % 3}",
                f"  flags = $flags -DN={library}",
            ]
        lines.append(f"build lib{library}.a: ar {' '.join(objects)}")
    lines += [f"build gen{number}: cc gen{number}.c" for number in range(3)]
    lines += ["build all.out: ld " + " ".join(f"lib{library}.a" for library in range(40)), "build all: phony all.out"]
    lines += ["default all"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    for library in range(40):
        parts = folder / f"lib{library}"
        parts.mkdir(exist_ok=True)
        for part in range(10):
            (parts / f"part{part}.c").touch()
            needed = f"lib{library}/part{part}.c common.h other{part}.h"
            (parts / f"part{part}.o.d").write_text(f"lib{library}/part{part}.o: {needed}\n")
    for name in ("common.h", "gen0.c", "gen1.c", "gen2.c"):
        (folder / name).touch()
    arguments = ["-n", "-n -v -d explain", "-n -k 0 -d stats lib3.a", "-t graph", "-t compdb", "-t targets all"]
    arguments += ["-t query all.out", "-t commands", "-t rules", "-t missingdeps", "-t inputs all", "-n nonesuch"]
    arguments += ["-n -t clean", "-n -t clean -r cc", "-t targets rule cc", "-t compdb-targets all", "-t deps", "-h"]
    return [(folder, line.split()) for line in arguments]


def _cppcheck_sources(source: Path) -> list[Path]:
    externals = [source / "externals" / name / f"{name}.cpp" for name in ("simplecpp", "tinyxml2")]
    return [*sorted((source / "lib").glob("*.cpp")), *sorted((source / "cli").glob("*.cpp")), *externals]


def _cppcheck_flags(source: Path) -> list[str]:
    folders = ["lib", "externals", "externals/simplecpp", "externals/tinyxml2", "externals/picojson"]
    return [*(f"-I{source / folder}" for folder in folders), f'-DFILESDIR="{source}"']


def _cppcheck_runs(source: Path, _folder: Path) -> list[tuple[Path, list[str]]]:
    files = ["lib/path.cpp", "lib/timer.cpp"]
    options = ["-q", "--enable=all", "--inconclusive", "-Ilib"]
    xml = ["--xml", "--enable=all", "lib/suppressions.cpp"]
    return [
        *((source, [*options, file]) for file in files),
        (source, xml),
        (source, ["--doc"]),
        (source, ["--errorlist"]),
    ]


def _protoc_sources(source: Path) -> list[Path]:
    unwanted = re.compile("test|mock|io_win32|gzip_stream", re.IGNORECASE)
    folder = source / "src/google/protobuf"
    return [path for path in sorted(folder.rglob("*.cc")) if not unwanted.search(str(path.relative_to(folder)))]


def _protoc_runs(source: Path, folder: Path) -> list[tuple[Path, list[str]]]:
    """Code in each language for two files."""
    folder.mkdir(parents=True, exist_ok=True)
    roots, files = [f"-I{source / 'src'}"], ["google/protobuf/descriptor.proto", "google/protobuf/api.proto"]
    languages = ("cpp", "csharp", "java", "objc", "php", "pyi", "python", "ruby")
    arguments = [[f"--{language}_out=.", *roots, *files] for language in languages]
    arguments += [["--descriptor_set_out=set.pb", "--include_imports", "--include_source_info", *roots, *files]]
    return [(folder, each) for each in arguments]


GENERATED = Program("gen", partial(write_sources, unit_count=4, type_count=6), lambda _: [], _generated_runs, gap=7)
SMALL = Program("small", partial(write_sources, unit_count=2, type_count=3), lambda _: [], _generated_runs, gap=5)
VIRTUAL = Program("virtual", partial(write_virtuals, unit_count=4, type_count=8), lambda _: [], _generated_runs, gap=7)
SMALL_VIRTUAL = Program(
    "small-virtual", partial(write_virtuals, unit_count=2, type_count=3), lambda _: [], _generated_runs, gap=5
)
VISITORS = Program("visitors", partial(write_visitors, unit_count=6), lambda _: [], _generated_runs, gap=7)
COMPOSITES = Program("composites", partial(write_composites, type_count=6), lambda _: [], _generated_runs, gap=7)
PROMISES = Program("promises", partial(write_promises, type_count=6), lambda _: [], _generated_runs, gap=7)
LOCALS = Program("locals", partial(write_locals, unit_count=3, type_count=4), lambda _: [], _generated_runs, gap=7)
FORMS = Program(
    "forms", partial(write_forms, unit_count=4, type_count=4), lambda _: ["-std=gnu++20"], _generated_runs, gap=7
)
SMALL_FORMS = Program(
    "small-forms", partial(write_forms, unit_count=3, type_count=3), lambda _: ["-std=gnu++20"], _generated_runs, gap=5
)
STATICS = Program(
    "statics", partial(write_statics, unit_count=4, kind_count=4), lambda _: ["-x", "c"], _generated_runs, gap=7
)
SMALL_STATICS = Program(
    "small-statics", partial(write_statics, unit_count=3, kind_count=3), lambda _: ["-x", "c"], _generated_runs, gap=5
)
INNER = Program("inner", partial(write_inner, unit_count=5, type_count=4), lambda _: [], _generated_runs, gap=50)
NINJA = Program("ninja", _ninja_sources, lambda _: [], _ninja_runs, "ninja-build", gap=100)
CPPCHECK = Program("cppcheck", _cppcheck_sources, _cppcheck_flags, _cppcheck_runs, "cppcheck", gap=5000)
PROTOC = Program(
    "protoc",
    _protoc_sources,
    lambda source: [f"-I{source / 'src'}", "-DHAVE_PTHREAD", "-pthread"],
    _protoc_runs,
    "protobuf",
    gap=2000,
)
PROGRAMS = {
    program.name: program
    for program in (
        GENERATED,
        SMALL,
        VIRTUAL,
        SMALL_VIRTUAL,
        COMPOSITES,
        PROMISES,
        VISITORS,
        LOCALS,
        FORMS,
        SMALL_FORMS,
        STATICS,
        SMALL_STATICS,
        INNER,
        NINJA,
        CPPCHECK,
        PROTOC,
    )
}
