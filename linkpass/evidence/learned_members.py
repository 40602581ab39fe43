"""Members that an image does not name (gold, mold drop symbols): the code of an object calls them at the body."""

from __future__ import annotations

from icf.aliases import base_name, same_function
from icf.demangle import demangle
from icf.folds.classes import Fold
from icf.folds.member import FoldMember
from icf.folds.words import words_of_die, words_of_symbol


def learn_members(fold: Fold, names: list[str], file: str) -> list[int]:
    """Return the members of a body that these names of one place mean, which no member has; new ones are added.

    `file`: the source file of functions with internal linkage, "" for others.
    """
    return sorted({idx for own in _by_function(names) for idx in _learn(fold, own, file)})


def _by_function(names: list[str]) -> list[list[str]]:
    """Return the names of one place, grouped by function."""
    functions: list[list[str]] = []
    for name in names:
        own = next((known for known in functions if same_function(known[0], name)), None)
        if own is None:
            functions.append([name])
        else:
            own.append(name)
    return functions


def _learn(fold: Fold, names: list[str], file: str) -> list[int]:
    """Return the member that these names of one function mean: a new one.

    A member that DWARF names without linkage name gets it, if it is the only function of the file that
    the name fits; else the function is a member of which there is no other evidence.
    """
    fitting = [idx for idx, member in enumerate(fold.members) if _may_be(member, names[0], file)]
    if len(fitting) > 1:
        return fitting
    if fitting and fold.members[fitting[0]].nameless:
        member = fold.members[fitting[0]]
        member.name, member.nameless = names[0], False
    else:
        fitting = [len(fold.members)]
        member = FoldMember(names[0], local=bool(file), files=frozenset({file} - {""}))
        fold.members.append(member)
    member.aliases = sorted(set(names[1:]))
    return fitting


def _may_be(member: FoldMember, symbol: str, file: str) -> bool:
    """Return whether DWARF's description of a member would fit the symbol."""
    if not member.dies or (file and member.files and file not in member.files):
        return False
    base = base_name(symbol)
    if member.nameless and "(" in member.name:  # demangled from the function's linkage name
        return member.name == demangle(base)
    return words_of_die(member.name if member.nameless else demangle(member.name)) <= words_of_symbol(base)
