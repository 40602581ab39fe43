"""Stacks and samples as they are read, before anything is looked up."""
