"""What answers are made of, for `_write` and its caller; tools/shared.py makes C constants of it.

An answer is a row of parts: its head, then for each chain what is before it, its frames, what is after it. A part is a
row of items.
"""

# Items: a text of their own, what surrounds a chain, or something of the frame or address. LINE_OR_MARK: ? instead of
# 0. LONG_ADDRESS: with 16 digits.
TEXT, NAME, FILE, AROUND, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS = range(10)
# Parts: that of the only frame of a chain, of the first, of one in the middle, of the last.
HEAD, ONLY, FIRST, MIDDLE, LAST, BEFORE, BEHIND = range(7)
# Frames that are shown: all; or the innermost, with the name of the function itself or of the innermost call.
ALL, OWN, INNERMOST = range(3)
# Bytes that a number takes at most; of a text that is copied byte by byte, as a call to copy it takes longer.
NUMBER_BYTES, SHORT_TEXT = 20, 31
