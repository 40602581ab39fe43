"""Links: what a link command says, and running it."""
