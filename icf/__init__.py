"""Shared model, formats, images and the umbrella command; `linkpass` and `unwind` build on it, never the other way."""

__version__ = "0.1.0"
