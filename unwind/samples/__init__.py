"""Stacks and samples as they are read, before any look-up."""
