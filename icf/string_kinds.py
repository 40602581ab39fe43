"""References to strings: kind << STRING_KIND | offset; tools/shared.py makes C constants of the names."""

STRING_KIND = 60
# SUP_STR: .debug_str of the supplementary file, SPLIT_STR: of split units
IN_INFO, IN_STR, IN_LINE_STR, IN_SUP_STR, IN_SPLIT_STR = range(1, 6)
