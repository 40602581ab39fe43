"""Machine code, x86-64 and AArch64: calls and jumps, their targets, and the addresses that code forms."""
