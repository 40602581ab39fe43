"""Writers of resolved stacks: one file for each output."""
