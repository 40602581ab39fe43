"""Puts sections into a linked image, and leaves every loaded byte as it is; see `linkpass.rewrite.sections`."""
