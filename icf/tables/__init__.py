"""Formats of the tables."""

ANNOTATION_SECTION = ".line.icf_dcall"  # here, since most images are asked for it and do not have it
