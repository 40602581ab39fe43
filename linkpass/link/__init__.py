"""Links: parses a link command and runs it."""
