# cython: language_level=3, boundscheck=True, wraparound=False
"""The answers to many addresses as bytes, from the arrays of `unwind.symcache.many` and from texts that are made once.

It does not call back into Python, and stops at the address that does not fit into what is left of `out`.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

SELF = 0xFFFFFFFF  # as in _look_up.py
NEXT, AT = 0, 1  # `state`: the address at hand, how many bytes are written
NUMBER_BYTES = 20
COPIED_ALONE = 48  # of fewer bytes each is copied on its own
NOTHING, NAME, FILE, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS = 0, 1, 2, 3, 4, 5, 6, 7, 8
HEAD, ONLY, FIRST, MIDDLE, LAST = 0, 1, 2, 3, 4
ALL, OWN, INNERMOST = 0, 1, 2


def write(
    asked, around, answers, chains, frames, starts, base, names, files, texts, ends, items, parts, shown, out, state
):  # fmt: skip
    """Write the answers from number state[NEXT] on; how many bytes that are.

    around      u32[n]: the text around what is at an address: of a function's own name, then before and behind each
                chain; of NOTHING, all there is to say
    answers...  what `look_up` found, and what it found it in: `starts`, `base`
    names       u32[names]: the text of each, and so `files`
    texts       of text i the bytes from ends[i] to ends[i + 1]
    items       u32[k, 2]: a text, then what of a frame is written behind it; parts u32[6]: where the head begins, the
                only, first, a middle and the last frame, and where that ends
    shown       ALL frames; else the innermost with the name of its OWN or of the last
    """
    count = asked.shape[0]
    with cython.nogil:
        state[AT] = 0
        i = state[NEXT]
        while i < count:
            begin = state[AT]
            fits = _part(HEAD, asked[i], 0, 0, 0, 0, 0, texts, ends, items, parts, out, state)
            text = around[i]
            chain = answers[i, 1]
            last_chain = chain + answers[i, 2]
            if chain == last_chain:
                fits &= _text(text, texts, ends, out, state)
            own_name = text
            start = base + starts[answers[i, 3]] if chain != last_chain else 0
            while chain < last_chain and fits != 0:
                fits = _text(text + 1, texts, ends, out, state)
                first = chains[chain, 0]
                last = chains[chain, 1]
                at = first
                while at < last and fits != 0:
                    part = MIDDLE
                    if shown != ALL or last == first + 1:
                        part = ONLY
                    elif at == first:
                        part = FIRST
                    elif at + 1 == last:
                        part = LAST
                    name = frames[last - 1 if shown == OWN else at, 0]
                    fits = _part(
                        part, asked[i], own_name if name == SELF else names[name], files[frames[at, 1]], frames[at, 2],
                        frames[at, 3], start, texts, ends, items, parts, out, state,
                    )  # fmt: skip
                    at = last if shown != ALL else at + 1
                if fits != 0:
                    fits = _text(text + 2, texts, ends, out, state)
                text += 2
                chain += 1
            if fits == 0:
                state[AT] = begin
                break
            i += 1
            state[NEXT] = i
    return state[AT]


def _part(part, address, name, file, line, column, start, texts, ends, items, parts, out, state):
    """Write a part; 0 if it does not fit."""
    item = parts[part]
    while item < parts[part + 1]:
        if _text(items[item, 0], texts, ends, out, state) == 0:
            return 0
        what = items[item, 1]
        if what == NAME or what == FILE:
            if _text(name if what == NAME else file, texts, ends, out, state) == 0:
                return 0
        elif what != NOTHING:
            if out.shape[0] - state[AT] < NUMBER_BYTES:
                return 0
            if what == LINE or what == LINE_OR_MARK:
                if what == LINE_OR_MARK and line == 0:
                    out[state[AT]] = 63  # ?
                    state[AT] += 1
                else:
                    _digits(line, 10, 1, out, state)
            elif what == COLUMN:
                _digits(column, 10, 1, out, state)
            else:
                out[state[AT]] = 48
                out[state[AT] + 1] = 120  # 0x
                state[AT] += 2
                _digits(start if what == START else address, 16, 16 if what == LONG_ADDRESS else 1, out, state)
        item += 1
    return 1


def _text(number, texts, ends, out, state):
    """Write a text; 0 if it does not fit."""
    begin = ends[number]
    size = ends[number + 1] - begin
    at = state[AT]
    if size > out.shape[0] - at:
        return 0
    if size >= COPIED_ALONE:
        out[at : at + size] = texts[begin : begin + size]
    else:
        i = 0
        while i < size:
            out[at + i] = texts[begin + i]
            i += 1
    state[AT] = at + size
    return 1


def _digits(value, radix, width, out, state):
    """Write a number with so many digits or more."""
    rest = value
    while rest >= radix:
        rest //= radix
        width -= 1
    while width > 1:
        out[state[AT]] = 48
        state[AT] += 1
        width -= 1
    count = 1
    rest = value
    while rest >= radix:
        rest //= radix
        count += 1
    at = state[AT] + count
    state[AT] = at
    rest = value
    while count > 0:
        digit = rest % radix
        at -= 1
        out[at] = 48 + digit if digit < 10 else 87 + digit
        rest //= radix
        count -= 1
    return 1
