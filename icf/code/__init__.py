"""Machine code, x86-64 and AArch64: which calls and jumps there are, where they lead, whose address is formed."""
