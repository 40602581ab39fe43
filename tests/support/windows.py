"""PE images with PDBs, made on Linux: clang for Windows and lld-link, without a Windows SDK."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.support.toolchain import lasting_folder, run, tool

TARGET = "--target=x86_64-pc-windows-msvc"
FLAGS = ("-gcodeview", "-g", "-ffunction-sections", "-fno-exceptions", "-mno-stack-arg-probe")

# The runtime that a program without an SDK needs: what RTTI refers to, what clang calls.
RUNTIME = """
extern "C" {
extern void* const type_info_vftable __asm__("??_7type_info@@6B@");
void* const type_info_vftable = 0;
int _fltused = 0;
void _purecall() {}
#pragma function(memset)
void* memset(void* to, int byte, unsigned long long count) {
    volatile char* at = (char*)to;
    while (count--) *at++ = (char)byte;
    return to;
}
}
void operator delete(void*, unsigned long long) {}
void operator delete(void*) {}
"""

# Merged functions: templates, overloads, static ones, methods in vtables; two merged callers of two merged callees.
SHOP = """
volatile int total;
#define KEEP __attribute__((noinline))
KEEP void count(int value) { total = total + value; }
struct Order { int id; };
struct Payment { int id; };
static inline int scaled(int value) {
    count(value);
    return value * 3 + 1;
}
template <class T> struct List {
    T* items;
    int size;
    KEEP int add(T* item) {
        size += scaled(item->id);
        return size;
    }
};
KEEP int discount(int value) { count(value); count(value + 1); return value; }
KEEP unsigned discount(unsigned value) { count(value); count(value + 1); return value; }
static KEEP int rebate(int value) { count(value); count(value + 1); return value; }
namespace sales { KEEP int tax(int value) { count(value * 7); return 1; } }
namespace costs { KEEP int tax(int value) { count(value * 7); return 1; } }
struct Item { virtual int price(int); virtual int stock(int); virtual ~Item(); };
int Item::price(int value) { count(value); return value; }
int Item::stock(int value) { count(value + 3); return 4; }
Item::~Item() {}
struct Book : Item { int price(int) override; };
struct Game : Item { int price(int) override; };
int Book::price(int value) { count(value + 100); return 2; }
int Game::price(int value) { count(value + 100); return 2; }
KEEP int orders(List<Order>* list, Order* order) { return list->add(order) + discount(list->size) + sales::tax(1); }
KEEP int payments(List<Payment>* list, Payment* payment) {
    return list->add(payment) + discount((unsigned)list->size) + costs::tax(2);
}
Item* volatile picked;
extern "C" int mainCRTStartup() {
    List<Order> some{0, 0};
    List<Payment> more{0, 0};
    Order order{1};
    Payment payment{2};
    Book book;
    Game game;
    picked = &book;
    int sum = orders(&some, &order) + payments(&more, &payment) + rebate(4) + picked->price(3);
    picked = &game;
    return sum + picked->price(2) + picked->stock(5);
}
"""


@cache
def compile_windows(source: str, *flags: str, suffix: str = ".cpp", name: str = "program") -> Path:
    """Compile a source for x86-64 Windows; the same source and flags give the same object again."""
    path = lasting_folder() / f"{name}{suffix}"
    path.write_text(source)
    run(tool("clang++"), TARGET, *FLAGS, *(flags or ("-O1",)), "-c", path, "-o", path.with_suffix(".obj"))
    return path.with_suffix(".obj")


def link_windows(folder: Path, *inputs: Path | str, icf: bool = True, name: str = "app") -> Path:
    """Link a console program with its PDB beside it; `inputs` are objects, archives and options."""
    path = folder / f"{name}.exe"
    options = ("/debug", f"/opt:ref,{'icf' if icf else 'noicf'}", "/nodefaultlib", "/subsystem:console")
    outputs = ("/entry:mainCRTStartup", f"/out:{path}", f"/pdb:{path.with_suffix('.pdb')}")
    run(tool("lld-link"), *options, *outputs, *inputs)
    return path


@cache
def shop() -> Path:
    """The program SHOP, linked with ICF."""
    return link_windows(lasting_folder(), compile_windows(RUNTIME + SHOP), name="shop")


LIBRARY = """
extern "C" __declspec(dllexport) int weigh(int value) { return value * 2; }
extern "C" __declspec(dllexport) int label(int value) { return value + 2; }
extern "C" int _DllMainCRTStartup(void*, unsigned, void*) { return 1; }
"""
USER = """
extern "C" __declspec(dllimport) int weigh(int);
extern "C" int label(int);
extern "C" int mainCRTStartup() { return weigh(1) + label(2); }
"""


@cache
def library_and_user() -> tuple[Path, Path]:
    """A DLL with two exports, and a program that calls one through its slot and one through a stub."""
    folder = lasting_folder()
    library, implib = folder / "scale.dll", folder / "scale.lib"
    options = ("/dll", "/nodefaultlib", "/debug", f"/out:{library}", f"/implib:{implib}")
    run(tool("lld-link"), *options, compile_windows(LIBRARY, "-O1", name="scale"))
    return library, link_windows(folder, compile_windows(USER, "-O1", name="user"), implib, name="user")
