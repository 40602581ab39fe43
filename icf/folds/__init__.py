"""Who shares a body, by symbols, debug information, objects and linkers' reports; `icf.folds.classes` is the way in."""
