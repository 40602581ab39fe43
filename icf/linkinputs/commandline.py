"""The inputs among the words of a link's command line, as response files hold it.

Options are passed over, with the word after those that take one; the words that remain are the inputs. `-lname` names
an input, too, but which file that was depends on the directories, on -Bstatic and on the system: these words are
returned apart, so that a caller does not take the inputs for complete.
"""

from __future__ import annotations

from collections.abc import Sequence

# Of compiler drivers and of linkers; single letters may have their argument in the same word.
_LETTERS_WITH_ARGUMENT = frozenset("-" + letter for letter in "oLlITuxezmhRyYaAbcfFGD")
_WITH_ARGUMENT = frozenset(
    "Map Tbss Tdata Ttext Xassembler Xclang arch architecture auxiliary defsym dynamic-linker dynamic-list "
    "entry exclude-libs filter fini format icf image-base include init isysroot isystem just-symbols library "
    "library-path max-page-size mllvm oformat output param plugin plugin-opt print-map-to retain-symbols-file rpath "
    "rpath-link script section-start soname symbol-ordering-file sysroot target undefined version-script wrap MF MQ "
    "MT".split()
)


def input_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are inputs, and those that name a library to be searched for (`-lm`)."""
    inputs: list[str] = []
    libraries: list[str] = []
    flat = [part for word in words for part in (word[4:].split(",") if word.startswith("-Wl,") else (word,))]
    flat = [word for word in flat if word not in ("-Xlinker", "-")]  # what follows the first is a word for the linker
    position = 0
    while position < len(flat):
        word = flat[position]
        position += 1
        if not word.startswith("-"):
            inputs.append(word)
        elif word in ("-l", "--library", "-library"):
            libraries += [f"-l{name}" for name in flat[position : position + 1]]
            position += 1
        elif word.startswith("-l") and not word.startswith("-lto"):
            libraries.append(word)
        elif word in _LETTERS_WITH_ARGUMENT or word.lstrip("-") in _WITH_ARGUMENT:
            position += 1
    return inputs, libraries
