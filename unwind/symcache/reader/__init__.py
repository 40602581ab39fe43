"""Answers from a symcache; no numpy, ELF or DWARF."""
