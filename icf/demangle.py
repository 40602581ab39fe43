"""Names as people write them: demangled where they are mangled, else unchanged.

    C++ (Itanium), Rust v0     LLVM's demanglers (pycxxfilt): the same text as llvm-cxxfilt and llvm-symbolizer
    Microsoft C++              the same library (`icf.microsoft_names`)
    Rust legacy, Swift         those of rustc and of Swift (pydemumble); a legacy name is shown without its hash

A library is imported at the first name that needs it: the import takes longer than looking up an address. A name that
the library refuses stays as it is. So do names that it must not get: as parts of a name refer to others, 250 bytes can
stand for gigabytes. The demanglers recurse with the depth of a name, and end the process where stack or memory ends.

    up to 160 bytes     harmless: short and not deep; with several packs up to 64, with few references up to 256
    longer              measured first (`icf._mangled`, `icf._mangled_rust`): unchanged if it stands for more than
                        1 MiB; with more than some 60 nested parts, demangled in a thread with a large stack
    Swift               unchanged with so many references that it might stand for more than 1 MiB
    more than 16 KiB    unchanged
    200 times as long   all of these together may have 64 MiB: a file of thousands of such names has no use, but one
                        that was made for it would take gigabytes; what comes after that is unchanged
"""

from __future__ import annotations

from array import array
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from icf._mangled import Measure
    from icf._mangled_rust import RustMeasure

_LIMIT, _KEPT_NAMES = 1 << 14, 1 << 16
_SHORTEST, _SHORT, _LONGER, _TEXT_LIMIT = 64, 160, 256, 1 << 20
_MANY_TIMES, _BYTES_OF_LONG = 200, 64 << 20
_FEW_PACKS, _FEW_REFERENCES = (
    3,
    15,
)  # a reference ends with an underscore; three in one part make it three times as long
_LEVELS, _DEEP_LEVELS, _DEEP_STACK_BYTES = 64, _LIMIT, 128 << 20
_DEPTH = 192  # the demanglers take up to 270 bytes of stack for each
_PROBED_BYTES = 1 << 16
_TOO_DEEP = 2  # why a name is not measured
_ANONYMOUS = "(anonymous namespace)"
_OPERATOR = r"\boperator(?!\w)(?:\(\)|\[\]|<=>|->\*?|(?:<<|>>)=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?|,)?"
_BRACKET = r"[<({\[\]})>]"  # within brackets nothing else counts
_OUTSIDE = rf"\boperator(?!\w)|{_BRACKET}|[: ]"
_LOCAL_SCOPE = r"(?: const| volatile| &&?)*::"  # of a class or lambda within a function
_HASH_START, _HASH_DIGITS = "17h", 16  # the last part of a Rust legacy name: as an identifier, its length before it


def demangle(name: str) -> str:
    """Return the source form of a linkage name, or `name` itself where it has none.

    >>> demangle("_ZN3fir4tapsEi"), demangle("_RNvCs1234_3fir4taps"), demangle("main")
    ('fir::taps(int)', 'fir::taps', 'main')
    """
    if not name.startswith(("_Z", "_R", "$s", "$S", "?")) or len(name) > _LIMIT:
        return name
    text = _known.get(name)
    if text is None:
        if len(_known) >= _KEPT_NAMES:
            _known.clear()
        if name[0] == "?":
            from icf.microsoft_names import demangle_microsoft

            text = _known[name] = demangle_microsoft(name)
            return text
        demangler = _demangle_rust_legacy_or_swift if name[0] == "$" or _is_rust_legacy(name) else _demangle_by_llvm
        text = demangler(name) if _is_harmless(name) else _demangle_measured(name, demangler)
        if len(text) > _MANY_TIMES * len(name):
            text = _affordable(name, text)
        _known[name] = text
    return text


def _affordable(name: str, text: str) -> str:
    """Return the text of a name that stands for very much of it; the name, if such names had too much already."""
    global _bytes_left
    _bytes_left -= len(text)
    return text if _bytes_left >= 0 else name


def demangle_all(names: Sequence[str]) -> list[str]:
    """Return the source forms of several functions; those of Rust that have one text keep the hash of their names.

    >>> demangle_all(["_ZN1q4grow17h0000000000000001E", "_ZN1q4grow17h0000000000000002E", "main"])
    ['q::grow::h0000000000000001', 'q::grow::h0000000000000002', 'main']
    """
    texts = [demangle(name) for name in names]
    if len(set(texts)) == len(texts):
        return texts
    counts = Counter(texts)
    return [
        f"{text}::h{name.rpartition(_HASH_START)[2][:_HASH_DIGITS]}"
        if counts[text] > 1 and _is_rust_legacy(name)
        else text
        for name, text in zip(names, texts, strict=True)
    ]


_known: dict[str, str] = {}
_bytes_left = _BYTES_OF_LONG


def _is_harmless(name: str) -> bool:
    """Return whether a name is so short that its demangled form is neither long nor deep."""
    if name[0] == "$" or len(name) > _SHORT and (len(name) > _LONGER or name.count("_") > _FEW_REFERENCES):
        return False
    return len(name) <= _SHORTEST or name.count("Dp") + name.count("sp") < _FEW_PACKS


def _demangle_measured(name: str, demangler: Callable[[str], str]) -> str:
    """Return the demangled form of a long name; the name itself if demangling might exhaust stack or memory."""
    if name[0] == "$":
        if _swift_bytes(name) > _TEXT_LIMIT:
            return name
        return demangler(name) if len(name) <= _SHORT else _in_large_stack(name, demangler)
    size_bytes, depth = _measure(name, _LEVELS)
    if size_bytes > _TEXT_LIMIT:
        return name
    if not 0 < depth <= _DEPTH:  # deep, or too deep to be measured here
        return _in_large_stack(name, demangler)
    return demangler(name) if _has_room(size_bytes) else name


def _measure(name: str, levels: int) -> tuple[int, int]:
    """Return upper bounds for the size and depth of a demangled name; depth 0 for too many levels."""
    found: Measure | RustMeasure
    text = name.encode("utf-8", "surrogateescape")
    if name.startswith("_R"):
        from icf._mangled_rust import RustMeasure

        found = RustMeasure(text, array("Q", bytes(8 * len(text) + 8)), levels)
    else:
        from icf._mangled import Measure

        if len(text) > _LIMIT:
            return _TEXT_LIMIT + 1, 0
        with _measuring:
            found = Measure(text, *_room, levels)
    if found.bad:
        return (0, 0) if found.bad == _TOO_DEEP else (_TEXT_LIMIT + 1, 0)
    return found.size, found.depth


def has_internal_part(name: str) -> bool:
    """Return whether a C++ name has a part with internal linkage, as a static function; true where that is not known.

    >>> has_internal_part("_ZZN3boxL4makeEvEN3Foo3barEv"), has_internal_part("_ZN3FooIL5Color1EE3barEv")
    (True, False)
    """
    from icf._mangled import Measure

    text = name.encode("utf-8", "surrogateescape")
    if len(text) > _LIMIT:
        return True
    with _measuring:
        found = Measure(text, *_room, _LEVELS)
    return bool(found.has_internal or found.bad)


def _swift_bytes(name: str) -> int:
    """Return how many bytes a Swift name may stand for: three references in one part make it three times as long."""
    import re

    references = 0
    for run in re.findall("A([0-9a-z]*[A-Z_])", name):  # several letters: a reference each; digits: so often
        references += sum(map(str.isalpha, run)) + sum(map(int, re.findall("[0-9]{1,6}", run))) + 1
    return int(len(name) * 3 ** min(references / 3, 60))


def _has_room(size_bytes: int) -> bool:
    """Return whether there is memory: the demanglers end the process if an allocation fails."""
    if size_bytes < _PROBED_BYTES:
        return True
    try:
        bytearray(4 * size_bytes)
    except MemoryError:
        return False
    return True


def _in_large_stack(name: str, demangler: Callable[[str], str]) -> str:
    """Return the demangled name, computed in a thread with a large stack; the name itself if no thread can start."""
    import threading

    found: list[str] = []

    def ask() -> None:
        try:
            size_bytes = 0 if name[0] == "$" else _measure(name, _DEEP_LEVELS)[0]
        except RecursionError:  # the kernels run uncompiled
            return
        if size_bytes <= _TEXT_LIMIT and _has_room(size_bytes):
            found.append(demangler(name))

    with _one_at_a_time:
        usual_bytes = threading.stack_size(_DEEP_STACK_BYTES)
        try:
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
        except RuntimeError:  # no memory for a stack
            return name
        finally:
            threading.stack_size(usual_bytes)
    thread.join()
    return found[0] if found else name


_one_at_a_time, _measuring = Lock(), Lock()
_room = array("Q", bytes(8 * _LIMIT + 8)), array("Q", bytes(8 * _LIMIT + 8))  # what measuring a name needs


def _is_rust_legacy(name: str) -> bool:
    head, _, tail = name.rpartition(_HASH_START)
    digits, end = tail[:_HASH_DIGITS], tail[_HASH_DIGITS:]
    return head.startswith("_ZN") and not digits.strip("0123456789abcdef") and (end == "E" or end.startswith("E."))


def _demangle_by_llvm(name: str) -> str:
    from pycxxfilt import demangle as demangle_by_llvm

    try:
        return demangle_by_llvm(name) or name
    except ValueError:  # not a mangled name after all
        return name


def _demangle_rust_legacy_or_swift(name: str) -> str:
    from pydemumble import demangle as demangle_by_demumble

    text = (name.isascii() and demangle_by_demumble(name)) or name
    head, _, hashed = text.rpartition("::h")  # pydemumble 0.1.3 shows Rust's hash, 0.1.1 does not
    return head if len(hashed) == _HASH_DIGITS and f"{_HASH_START}{hashed}E" in name else text


def short_name(name: str) -> str:
    """Return the name of a function as its declaration has it: without scopes, parameters and return type.

    >>> short_name("_ZN3fir6Filter4tapsEi"), short_name("_ZN3firlsIiEERSoS1_T_"), short_name("main")
    ('taps', 'operator<<<int>', 'main')
    """
    text = demangle(name)
    if text == name:
        return name
    _, start, end = _declared(text)
    return text[start:end] or text


def qualified_name(text: str) -> str:
    """Return a demangled name with its scopes, without parameters and return type, as debuggers show it.

    >>> qualified_name("int fir::Filter::taps<int>(int) const"), qualified_name("main")
    ('fir::Filter::taps<int>', 'main')
    """
    if "(" not in text:
        return text
    first, _, end = _declared(text)
    return text[first:end] or text


def _declared(text: str) -> tuple[int, int, int]:
    """Return where the scopes of a demangled name begin, where the name itself does, and where it ends."""
    import re

    operator, local_scope, bracket = re.compile(_OPERATOR), re.compile(_LOCAL_SCOPE), re.compile(_BRACKET)
    outside = re.compile(_OUTSIDE)
    depth = first = start = at = 0
    is_operator = False
    while at < len(text):
        stop = (bracket if depth > 0 else outside).search(text, at)
        if stop is None:
            break
        at = stop.start()
        if depth == 0 and (found := operator.match(text, at)):
            start, at, is_operator = at, found.end(), True
        elif text[at] == "(" and depth == 0 and not text.startswith(_ANONYMOUS, at):
            end = _closing(text, at)
            if text.endswith("decltype", start, at):  # of the return type
                at = end
                continue
            if not (scope := local_scope.match(text, end)):
                return first, start, at
            start, at, is_operator = scope.end(), scope.end(), False
        else:
            depth += (text[at] in "<({[") - (text[at] in ">)}]")
            at += 1
            if depth == 0 and (text.startswith("::", at - 1) or (text[at - 1] == " " and not is_operator)):
                start, is_operator = at + (text[at - 1] == ":"), False
                first = at if text[at - 1] == " " else first
    return first, start, len(text)


def _closing(text: str, at: int) -> int:
    """Return the position after the parenthesis that closes the one at `at`."""
    import re

    depth = 0
    for found in re.compile("[()]").finditer(text, at):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(text)
