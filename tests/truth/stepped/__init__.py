"""Truth at every instruction: small programs, single-stepped with and without folding, and compared frame by frame.

themes       the programs, each written to make functions fold in one way; `themes/` has their sources
builds       compiled once, linked twice, in the ways of `KINDS`
stepper      runs a program under `stepper.c`, which writes the whole stack at every instruction
align        step k of one run against step k of the other: what each frame of the folded program truly is
identity     when two names mean one function
relocations  what a call or a jump names, where the compiler itself has merged functions
ask          what `icf` answers, by evidence
score        answers against the truth
"""
