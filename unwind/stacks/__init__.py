"""Stacks as text to addresses, answers to text and JSON."""
