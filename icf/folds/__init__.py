"""Which functions share a body, by symbols, debug information, objects and linkers' reports.

See `icf.folds.classes`.
"""
