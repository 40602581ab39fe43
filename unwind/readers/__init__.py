"""Readers of stacks: one file for each format, each yields `unwind.samples.stack.Stack`."""
