"""Sections into a linked image, without touching a byte that gets loaded; see `linkpass.rewrite.sections`."""
