"""`icf symbolize` as scripts use it: requests as llvm-symbolizer and addr2line read them, answers in their styles."""
