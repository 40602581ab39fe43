"""The symcache of small programs says at every address of their code what llvm-symbolizer says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.symcaches import cache_of, code_of, differences
from tests.support.toolchain import run, tool
from unwind.symcache.reader.many import frames_many

SOURCE = r"""
void *operator new(unsigned long size);
namespace {
volatile int sink;
int twice(int x) { return 2 * x + sink; }
struct Failed { int why; };

template <class T> struct Shelf {
    T *items = nullptr;
    int count = 0;
    __attribute__((always_inline)) inline T &at(int place) {
        if (place >= count) throw Failed{place};
        return items[place];
    }
    __attribute__((always_inline)) inline void put(int place, T item) {
        T &old = at(place);
        if (old < item) old = item;
        sink += twice(place);
    }
    ~Shelf() { if (count) sink = count; }
};
}  // namespace

template <class T> __attribute__((noinline)) T sum(Shelf<T> &all) {
    T total{};
    for (int i = 0; i < all.count; i++) total += all.at(i);
    return total;
}

__attribute__((noinline)) int local_class(int n) {
    struct Local {
        int base;
        __attribute__((noinline)) int add(int x) { return base + twice(x); }
    };
    Local local{n};
    auto apply = [&](int x) { sink = x; return local.add(x) + n; };
    return apply(n) + apply(n + 1);
}

__attribute__((cold, noinline)) void unlikely(int x) { sink -= twice(x); }

int main(int argc, char **argv) {
    Shelf<int> shelf;
    Shelf<double> more;
    try {
        for (int i = 0; i < argc; i++) {
            shelf.put(i, local_class(i));
            more.put(i, i * 0.5);
        }
    } catch (const Failed &failed) {
        unlikely(failed.why);
    }
    return sum(shelf) + static_cast<int>(sum(more)) + *argv[0];
}
"""
ASSEMBLY = """
        .text
        .globl  outer
        .type   outer, @function
outer:  nop
        .type   label, @function
label:  nop
        nop
        .size   label, .-label
        ret
        .size   outer, .-outer
"""
FLAGS = (
    ("-O2", "-g"),
    ("-O2", "-g", "-ffunction-sections"),
    ("-O0", "-g"),
    ("-O2", "-g1"),
    ("-O2", "-gdwarf-4"),
    ("-O2", "-gdwarf-3"),
    ("-O2", "-gdwarf-2"),
    ("-O3", "-gdwarf-5", "-gsplit-dwarf"),
    ("-O2", "-gdwarf-4", "-gsplit-dwarf"),
    ("-O2", "-g", "-fdebug-types-section"),
    ("-O2", "-gdwarf64", "-gdwarf-5"),
    ("-O2",),
)


def program(folder: Path, compiler: str, *flags: str, assembly: bool = False) -> Path:
    (folder / "main.cpp").write_text(SOURCE)
    sources = ["main.cpp"]
    if assembly:
        (folder / "labels.s").write_text(ASSEMBLY)
        sources.append("labels.s")
    driver = tool("g++") if compiler == "gcc" else tool("clang++")
    run(driver, *flags, *sources, "-o", "program", folder=folder)
    return folder / "program"


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_address(tmp_path: Path, compiler: str, flags: tuple[str, ...]) -> None:
    path = program(tmp_path, compiler, *flags)
    cache = cache_of(path)
    assert differences(path, cache, code_of(path)) == []
    (main,) = cache.addresses("main")
    assert cache.frames(main)[-1].linkage_name == "main"
    chains = frames_many(cache, code_of(path))
    if "-g" in flags and "-O2" in flags:
        assert max(map(len, chains)) > 2
    if flags != ("-O2",):
        mains = [frames for frames in chains if frames and frames[-1].linkage_name == "main"]
        assert all(frames[-1].file.endswith("main.cpp") for frames in mains)


def test_shared_library(tmp_path: Path) -> None:
    path = program(tmp_path, "gcc", "-O2", "-g", "-shared", "-fPIC")
    assert differences(path, cache_of(path), code_of(path)) == []


def test_dwz(tmp_path: Path) -> None:
    path = program(tmp_path, "gcc", "-O2", "-g", "-gdwarf-4")
    run(tool("dwz"), path)
    assert differences(path, cache_of(path), code_of(path)) == []


def test_stripped(tmp_path: Path) -> None:
    path = program(tmp_path, "gcc", "-O2", "-g", "-shared", "-fPIC")
    run(tool("strip"), path)
    cache = cache_of(path)
    assert differences(path, cache, code_of(path)) == []
    (main,) = cache.addresses("main")
    assert cache.frames(main)[0][1:] == ("", 0, 0, False)


def test_labels_within_a_function(tmp_path: Path) -> None:
    path = program(tmp_path, "gcc", "-O2", "-g", assembly=True)
    cache = cache_of(path)
    (outer,), (label,) = cache.addresses("outer"), cache.addresses("label")
    names = [frames[0].linkage_name for frames in frames_many(cache, range(outer, outer + 4))]
    assert names == ["outer", "label", "label", "outer"]
    found = cache.find(outer + 3)
    assert found is not None and (found.start, found.size_bytes) == (outer, 4)
    assert cache.find(label) == cache.find(label + 1)
    assert cache.frames(outer + 3)[0].line == 10 and cache.frames(outer + 3)[0].file.endswith("labels.s")


def test_debug_information_without_functions(tmp_path: Path) -> None:
    (tmp_path / "data.c").write_text("int data = 3;\n")
    (tmp_path / "labels.s").write_text(ASSEMBLY)
    path = tmp_path / "library"
    run(tool("gcc"), "-g", "-shared", "-nostdlib", tmp_path / "data.c", tmp_path / "labels.s", "-o", path)
    cache = cache_of(path)
    (outer,) = cache.addresses("outer")
    assert [frame.linkage_name for frame in cache.frames(outer)] == ["outer"]
    assert differences(path, cache, code_of(path)) == []
