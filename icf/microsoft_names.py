"""Linkage names of the Microsoft ABI: `?add@?$List@UOrder@@@@QEAAHPEAUOrder@@@Z` is `List<struct Order>::add(...)`.

LLVM's demangler (pycxxfilt) reads them. A reference in a name stands for a type that came before in it; a type of a
function can have references in its parameters and be referred to again, so few bytes can stand for gigabytes. Names
with more than a few of both stay as they are.
"""

from __future__ import annotations

import re
from string import digits
from typing import NamedTuple

_LIMIT = 1 << 12  # longer names are hashed by compilers: ??@1234...@
_FEW_REFERENCES, _FEW_FUNCTIONS = 16, 2
_FUNCTION_TYPE = re.compile(r"[A-S]E?[A-J]?[68]|\$\$[A-C]?[68]|[68][A-Z]")
_CONVENTION = re.compile(r"__(?:cdecl|stdcall|fastcall|thiscall|vectorcall|clrcall|swiftcall|swiftasynccall|regcall) ")
_PLAIN = re.compile(r"(?:(?!operator)[^(`'{\[])*?\b__cdecl ((?:(?!operator|__)[^(`'{\[])+)\(([^(){}`']*)\)([^()]*)")
_RETURNED_POINTER = re.compile(r"(?:__\w+ )?(?:[^()*&]*::)?[*&]+(?: const| volatile)* ?")
_RESULT_DEPTH = 4  # functions that return pointers to functions that return such; deeper ones are not known
_KEYWORD = re.compile(r"\b(?:struct|class|union|enum) ")
_POINTER_CONST = re.compile(r"\*(?:const|__ptr64|__restrict)+")
# LLVM writes dtor, Microsoft destructor
_DESTRUCTOR = re.compile(r"(?:`(?:(?:scalar|vector) deleting|vbase) d(?:tor|estructor)'|~[^:]*)$")
_NO_SIZE = "[0]", "[]"  # an array of no known size, in records and in demangled names
# what may look like a bracket, and brackets
_BRACKET = re.compile(r"(operator(?:\(\)|\[\]|<=>|->\*?|(?:<<|>>)=?|[<>]=?))|->|([(<[{`])|([)>\]}'])")
_OPERATOR, _OPENING, _CLOSING = 1, 2, 3


class Declared(NamedTuple):
    """The declaration of a function."""

    name: str  # with scopes
    parameters: str  # between the brackets
    suffix: str  # after them: " const"


def demangle_microsoft(name: str) -> str:
    """Return a name as people write it, without access, return type and calling convention; or the name itself."""
    text = _demangled(name)
    declared = declaration(text) if text else None
    if declared is None:
        return text or name
    return f"{declared.name}({declared.parameters}){declared.suffix}"


def declared_by(name: str) -> Declared | None:
    """Return the function that a linkage name declares; None if it declares none."""
    text = _demangled(name)
    return declaration(text) if text else None


def _demangled(name: str) -> str:
    references = sum(map(name.count, digits))
    is_large = references > _FEW_REFERENCES and len(_FUNCTION_TYPE.findall(name)) > _FEW_FUNCTIONS
    if is_large or len(name) > _LIMIT or not name.isascii():
        return ""
    from pycxxfilt import msvc_demangle

    try:
        return msvc_demangle(name) or ""
    except ValueError:
        return ""


def declaration(text: str) -> Declared | None:
    """Return the parts of a demangled name; None if it is not that of a function.

    >>> declaration("public: int __cdecl List<struct Order>::add(struct Order *) const")
    Declared(name='List<struct Order>::add', parameters='struct Order *', suffix=' const')
    """
    if (plain := _PLAIN.fullmatch(text)) and _is_balanced(plain[1]) and _is_balanced(text[: plain.start(1)]):
        return Declared(plain[1], plain[2], plain[3])  # nearly all names; a tenth of the time
    depths = _depths(text)
    conventions = [(found.start(), found.end()) for found in _CONVENTION.finditer(text)]
    low, high = 0, len(text)
    for depth in range(_RESULT_DEPTH):
        starts = [end for start, end in conventions if low <= start < high and depths[start] == depth]
        if starts:
            return _declared(text, depths, starts[-1], high, depth)
        # void (__cdecl * __cdecl get(int))(char): what stands in the brackets is the function, and what it returns
        opening = text.find("(", low, high)
        pointer = (
            _RETURNED_POINTER.match(text, opening + 1, high) if opening >= 0 and depths[opening] == depth else None
        )
        if pointer is None:
            break
        closing = (at for at in range(pointer.end(), high) if text[at] == ")" and depths[at] == depth)
        low, high = pointer.end(), next(closing, -1)
    return None


def _is_balanced(text: str) -> bool:
    """Return whether each `<` has its `>`; `text` has no operator in it."""
    return text.count("<") == text.count(">")


def _declared(text: str, depths: list[int], start: int, high: int, depth: int) -> Declared | None:
    """Return the function whose name begins at `start`; `depth` brackets are open around it."""
    brackets = [at for at in range(start, high) if text[at] in "()" and depths[at] == depth]
    if text.startswith("operator ", max(text.rfind(":", start, next(iter(brackets), start)) + 1, start)):
        brackets = brackets[-2:]  # the type that a conversion converts to may have brackets
    else:
        brackets = brackets[:2]
    if len(brackets) != 2 or text[brackets[0]] != "(":
        return None
    at, end = brackets
    return Declared(text[start:at], text[at + 1 : end], text[end + 1 : high])


def _depths(text: str) -> list[int]:
    """Return how many brackets are open around each character; those of operators are none."""
    depths: list[int] = []
    depth = 0
    for found in _BRACKET.finditer(text):
        kind, (at, end) = found.lastindex, found.span()
        depths += [depth] * (at - len(depths))
        if kind == _CLOSING:
            depth = max(depth - 1, 0)
        depths += [depth]
        if kind == _OPERATOR:
            depths += [depth + 1] * (end - at - 1)
        depth += kind == _OPENING
    return depths + [depth] * (len(text) - len(depths))


def spelled_alike(name: str) -> str:
    """Return a name so that spellings of one function by a compiler and by the demangler are the same text."""
    text = _KEYWORD.sub("", name) if " " in name else name
    if "~" in text or "`" in text:
        text = _DESTRUCTOR.sub("~", text)
    return text.replace(" ", "").replace(*_NO_SIZE)


def parameters_alike(parameters: str) -> str:
    """Return the same of a list of parameters."""
    text = _POINTER_CONST.sub("*", _KEYWORD.sub("", parameters).replace(" ", "")).replace(*_NO_SIZE)
    return "" if text == "void" else text
